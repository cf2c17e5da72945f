from scaler.report import page


def test_a_page_holds_its_sections_and_nothing_that_has_to_be_fetched() -> None:
    drawn = page.figure()
    drawn.add_subplot().plot([0, 1], [2, 3], label="replicas")
    text = page.page("Runs & plots", [("First", page.paragraph("1 < 2")), ("Second", page.svg(drawn))])
    assert "<h1>Runs &amp; plots</h1>" in text
    assert "<p>1 &lt; 2</p>" in text
    assert text.count("<svg") == 1
    assert "src=" not in text
    assert "@import" not in text


def test_the_same_figure_gives_the_same_picture() -> None:
    def drawn() -> str:
        figure = page.figure()
        figure.add_subplot().plot([0, 1], [2, 3])
        return page.svg(figure)

    assert drawn() == drawn()


def test_a_table_escapes_what_users_named() -> None:
    assert "<td>a&lt;b</td><td>1</td>" in page.table(("pool", "n"), [("a<b", "1")])
