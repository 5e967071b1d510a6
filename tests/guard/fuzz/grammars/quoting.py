"""Quoting: chapter 3.1.2 of the manual, and comments, 3.1.3."""

from tests.guard.fuzz.expand import Grammar

GRAMMAR = Grammar(
    name="quoting",
    chapter="3.1.2 Quoting, 3.1.3 Comments",
    rules={
        "script": ["‹line›", "‹line›\n‹line›", "‹line›; ‹line›", "‹line› && ‹line›", "‹line› # ‹line›\n‹line›",
            "‹line›\n# ‹line›\n‹line›"],
        "line": [
            "echo ‹text›", "echo ‹text› ‹text›", "echo ‹text›‹text›", "‹deed›", "‹deed› ‹text›", "‹spelled:plain› ‹text›",
            "cat ‹text› f", "printf %s ‹text›", "grep ‹text› f", "echo ‹text›; ‹deed›", "echo ‹text› | ‹deed›", "echo ‹text›#‹text›",
            "echo a#b ‹text›", "‹spelled:forbidden_word› x", "echo ‹spelled:forbidden_word›", "x=‹text›", "x=‹text› ‹deed›",
            "echo ‹text› \\\n ‹text›", "echo ‹text›\\\n‹text›", "‹deed› \\\n ‹text›", "echo\t‹text›", "echo ‹text› &", "test ‹text›",
            "ls \\\n# ‹line›", "echo \\# ‹text›", "echo ‹text›;# ‹line›", "echo ‹text› 2>&1 # ‹deed›",
        ],
        "text": [
            "a", "'‹inner_single›'", "\"‹inner_double›\"", "$'‹inner_ansi›'", "$\"‹inner_double›\"", "\\‹char›", "‹text›‹text›", "''",
            "\"\"",
            "‹datum›", "a\\ b", "\\\\", "\\'", "\\\"", "'\\'", "\"\\\\\"", "$'\\''", "'\"'", "\"'\"", "a\\\nb", "$'\\\\'", "'a'\\''b'",
            "\\$(‹deed›)", "\\`‹deed›\\`", "$", "a$", "\"$\"", "'$'", "\"a$\"", "$'$'", "!", "\"!\"", "^a", "a=b", "‹text› ‹text›",
            "\"$(‹deed›)\"", "$(‹deed›)", "‹bbq:deed›", "\"‹bbq:deed›\"",
        ],
        "inner_single": ["a", "‹forbidden_text›", "\"", "\\", "$(‹deed›)", "`‹deed›`", "; ‹deed›", "\n‹deed›\n", "#", "a\\", "${",
            "$(("],
        "inner_double": [
            "a", "‹forbidden_text›", "'", "\\\"", "\\\\", "\\$(‹deed›)", "\\`‹deed›\\`", "; ‹deed›", "\n‹deed›\n", "$", "\\a",
            "'‹inner_double›'",
            "\\\n", "$(‹deed›)", "$(echo \"‹inner_double›\")", "$(echo '‹inner_single›')", "${x:-‹inner_double›}",
            "${x:-'‹inner_double›'}",
            "$x", "!", "`", "$'a'", "\\\\\\\"", "a`echo \\\"b\\\"`", "${x#'}", "${x:-\"‹inner_double›\"}", "#", "\\\n$x", "$\\\nx",
        ],
        "inner_ansi": [
            "a", "\\'", "\\\\", "\\n‹forbidden_text›", "\\x72\\x6d", "\\162m", "\\0", "\\'; ‹deed› #", "\\c'", "\\cm", "\\u0072",
            "\\E", "\"",
            "\\x{72}", "\\\\\\'", "$(‹deed›)", "\n", "\\\n", "\\x27", "\\047", "`", "\\e\\a",
        ],
        "char": ["a", "r", ";", "&", "|", "<", ">", "(", ")", "#", "$", "`", "'", "\"", "\\", " ", "*", "\n", "{", "}", "!", "~",
            "\t", "[", "-"],
        "plain": ["echo", "ls", "cat", "true", "grep", "printf", "sort"],
        "forbidden_word": ["rm", "/bin/rm", "/usr/bin/rm"],
        "forbidden_text": ["rm x", "rm", "; rm x", "$(rm x)", "rm x;"],
    },
)  # fmt: skip
