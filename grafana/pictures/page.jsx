// Draws panels of our dashboards with Grafana's own components: window.board is what tools/pictures.py has read from the
// dashboards' JSON and asked Prometheus for. Grafana puts field options together from its registry of panel editors,
// which is not in its packages; `configured` does that here for the few kinds of overrides that we use.
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';

import {
  EventBusSrv,
  FieldType,
  ThemeContext,
  createTheme,
  dateTime,
  getDisplayProcessor,
  getDisplayValueAlignmentFactors,
  toDataFrame,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, PanelContextProvider, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

const theme = createTheme({ colors: { mode: 'light' } });
const timeZone = 'utc';
const GRID = { columns: 24, rowPx: 38, gapPx: 8 };

function configured(panel, name) {
  const { defaults, overrides } = panel.fieldConfig;
  const config = { ...structuredClone(defaults), custom: { ...defaults.custom } };
  for (const { matcher, properties } of overrides) {
    if (matcher.id !== 'byName' || matcher.options !== name) {
      continue;
    }
    for (const { id, value } of properties) {
      const path = id.split('.');
      const holder = path.length > 1 ? config[path[0]] : config;
      holder[path.at(-1)] = value;
    }
  }
  return config;
}

function frames(panel) {
  return panel.series.map(({ name, times, values }, index) => {
    const frame = toDataFrame({
      name,
      fields: [
        { name: 'Time', type: FieldType.time, values: times },
        { name, type: FieldType.number, values, config: { ...configured(panel, name), displayName: name } },
      ],
    });
    const [time, value] = frame.fields;
    time.display = getDisplayProcessor({ field: time, theme, timeZone });
    value.state = { seriesIndex: index, displayName: name };
    value.display = getDisplayProcessor({ field: value, theme, timeZone });
    return frame;
  });
}

function marked(board) {
  return (config) => {
    config.addHook('draw', (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.strokeStyle = theme.visualization.getColorByName('orange');
      ctx.globalAlpha = 0.6;
      ctx.setLineDash([4, 4]);
      for (const at of board.marks) {
        const x = Math.round(plot.valToPos(at, 'x', true));
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
      }
      ctx.restore();
    });
    return null;
  };
}

function Lines({ panel, board, width, height }) {
  const [from, to] = board.range.map((at) => dateTime(at));
  return (
    <TimeSeries
      frames={frames(panel)}
      width={width}
      height={height}
      timeRange={{ from, to, raw: { from, to } }}
      timeZone={timeZone}
      legend={{ calcs: [], ...panel.options.legend }}
      options={{}}
    >
      {marked(board)}
    </TimeSeries>
  );
}

function Figure({ panel, width, height }) {
  const field = { name: panel.title, type: FieldType.number, values: [], config: configured(panel, panel.title) };
  const value = getDisplayProcessor({ field, theme, timeZone })(panel.series[0]?.values.at(-1));
  return (
    <BigValue
      theme={theme}
      value={value}
      width={width}
      height={height}
      colorMode={panel.options.colorMode}
      graphMode="none"
      justifyMode="auto"
      alignmentFactors={getDisplayValueAlignmentFactors([{ display: value }])}
    />
  );
}

function Panel({ panel, board }) {
  const { x, y, w, h } = panel.place;
  const column = board.width / GRID.columns;
  const [width, height] = [w * column - GRID.gapPx, h * GRID.rowPx - GRID.gapPx];
  const Kind = panel.type === 'stat' ? Figure : Lines;
  return (
    <div style={{ position: 'absolute', left: x * column + GRID.gapPx / 2, top: y * GRID.rowPx + GRID.gapPx }}>
      <PanelChrome title={panel.title} width={width} height={height}>
        {(innerWidth, innerHeight) => (
          <Kind panel={panel} board={board} width={innerWidth} height={innerHeight} />
        )}
      </PanelChrome>
    </div>
  );
}

function Board({ board }) {
  return (
    <div style={{ position: 'relative', width: board.width, height: board.rows * GRID.rowPx + GRID.gapPx }}>
      {board.panels.map((panel) => (
        <Panel key={panel.title} panel={panel} board={board} />
      ))}
    </div>
  );
}

// The height of the window has to be known before there is one: see tools/pictures.py.
document.body.style.cssText = `margin:0;background:${theme.colors.background.canvas};font-family:${theme.typography.fontFamily};font-size:14px;line-height:1.57;color:${theme.colors.text.primary}`;
createRoot(document.getElementById('board')).render(
  <ThemeContext.Provider value={theme}>
    <PanelContextProvider value={{ eventsScope: 'pictures', eventBus: new EventBusSrv() }}>
      <GlobalStyles />
      <Board board={window.board} />
    </PanelContextProvider>
  </ThemeContext.Provider>
);
