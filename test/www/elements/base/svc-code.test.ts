import '../../../support/without-dom.js'
import t from 'tap'
import { readCode } from '../../../../www/elements/base/svc-code.js'

/** Formats spans as `kind:text`, and plain ones as their trimmed text. */
function shown(text: string, language: string): string[] {
  const code = readCode(text, language)
  return Array.from({ length: code.count }, (_, line) =>
    code
      .spans(line)
      .map(({ kind, text }) => (kind === null ? text.trim() : `${kind}:${text.trim()}`))
      .filter(Boolean)
      .join(' ')
  )
}

const cases: Array<[language: string, text: string, lines: string[]]> = [
  ['plaintext', 'if "a" # b', ['if "a" # b']],
  ['unheard-of', 'x', ['x']],
  ['json', '{"a b": ["x", -1.5e3, true]}', ['{ name:"a b" : [ string:"x" , number:-1.5e3 , keyword:true ]}']],
  ['json', '{"a\\"b" : "c: d"}', ['{ name:"a\\"b" : string:"c: d" }']],
  ['javascript', 'const a = 0x1f // b', ['keyword:const a = number:0x1f comment:// b']],
  ['javascript', 'x = a / b / c', ['x = a / b / c']],
  ['javascript', 'x = /[/"]\\/$/g.test(y)', ['x = string:/[/"]\\/$/g .test(y)']],
  ['javascript', 'return (/"/)', ['keyword:return ( string:/"/ )']],
  ['javascript', 'newest instanceof2 $if', ['newest instanceof2 $if']],
  [
    'typescript',
    'type A = `a\n${b}`; /* c\nd */ x',
    ['keyword:type A = string:`a', 'string:${b}` ; comment:/* c', 'comment:d */ x']
  ],
  ['javascript', '"never closed\nlet', ['string:"never closed', 'keyword:let']],
  [
    'css',
    'a:hover { color: #fff; margin: -1.5em }',
    ['a:hover { name:color : number:#fff ; name:margin : number:-1.5em }']
  ],
  ['css', '@media (min-width: 9px) {}', ['keyword:@media (min-width: number:9px ) {}']],
  ['css', 'a{background:url("//x")}', ['a{ name:background :url( string:"//x" )}']],
  [
    'html',
    '<p class="a>b" hidden>x &amp; y</p>',
    ['keyword:<p name:class = string:"a>b" name:hidden keyword:> x number:&amp; y keyword:</p keyword:>']
  ],
  [
    'html',
    '<!-- <p> -->\n<script>let a = "</p>"</script>',
    ['comment:<!-- <p> -->', 'keyword:<script keyword:> keyword:let a = string:"</p>" keyword:</script keyword:>']
  ],
  [
    'xml',
    '<?xml version="1.0"?><a><![CDATA[<b>]]></a>',
    [
      'keyword:<?xml name:version = string:"1.0" keyword:?> keyword:<a keyword:> string:<![CDATA[<b>]]> keyword:</a keyword:>'
    ]
  ],
  ['html', '1 < 2 and a <', ['1 < 2 and a <']],
  [
    'bash',
    'if [ "$A" = \'b\' ]; then echo $# a#b # c',
    ['keyword:if [ string:"$A" = string:\'b\' ]; keyword:then echo name:$# a#b comment:# c']
  ],
  [
    'yaml',
    'a-b: yes # c\n- url: http://x:80/#y\n"k": 1.5',
    ['name:a-b : keyword:yes comment:# c', '- name:url : http://x:80/#y', 'name:"k" : number:1.5']
  ],
  ['ini', '; c\n[a.b]\nkey = "v" # 1', ['comment:; c', 'strong:[a.b]', 'name:key = string:"v" # number:1']],
  ['nginx', 'server {\n  listen 80; # x\n}', ['name:server {', 'name:listen number:80 ; # x', '}']],
  [
    'markdown',
    '# A `b`\ntext `c` **d** [e](f)\n- g\n```\n# h\n```',
    [
      'strong:# A `b`',
      'text string:`c` strong:**d** name:[e](f)',
      'keyword:- g',
      'string:```',
      'string:# h',
      'string:```'
    ]
  ],
  [
    'sql',
    "SELECT 'it''s', \"a\" FROM t -- x",
    ["keyword:SELECT string:'it''s' , name:\"a\" keyword:FROM t comment:-- x"]
  ],
  [
    'python',
    '@a.b\ndef f(x=r"\\d"): # c\n  """d\n  e"""',
    ['name:@a.b', 'keyword:def f(x= string:r"\\d" ): comment:# c', 'string:"""d', 'string:e"""']
  ],
  ['go', "func a() { x := '\\n' /* y */ }", ["keyword:func a() { x := string:'\\n' comment:/* y */ }"]],
  ['ruby', 'def a # b', ['keyword:def a comment:# b']]
]

for (const [language, text, lines] of cases) {
  t.test(`${language}: ${JSON.stringify(text.slice(0, 40))}`, async t => {
    t.same(shown(text, language), lines)
  })
}

t.test('splits lines like an editor and loses no character', async t => {
  const counts: Array<[text: string, count: number]> = [
    ['', 1],
    ['a', 1],
    ['a\n', 1],
    ['a\nb', 2],
    ['a\r\nb\r\n', 2],
    ['\n\n', 2]
  ]
  for (const [text, count] of counts) t.equal(readCode(text, 'json').count, count, JSON.stringify(text))
  t.same(readCode('"a"\r\n1', 'json').spans(0), [{ text: '"a"', kind: 'string' }])
  t.equal(readCode('ab\nabcd\nc', 'json').longest, 4)
  for (const [language, text] of cases) {
    const code = readCode(text, language)
    const whole = Array.from({ length: code.count }, (_, line) =>
      code
        .spans(line)
        .map(span => span.text)
        .join('')
    ).join('\n')
    t.equal(whole, text.replace(/\n$/, ''), language)
  }
})

t.test('reads a megabyte of any text without backtracking', async t => {
  const pieces = [
    '<a "',
    "'",
    '"',
    '/*',
    '`',
    '/',
    '/[',
    '<!--',
    '<![CDATA[',
    'a:',
    'a.',
    ' #',
    '#a',
    '//',
    '[[',
    '[](',
    '- ',
    '```',
    '**',
    '\\',
    '<script>',
    '<style',
    'a{b:c',
    '$',
    '@',
    '&',
    '>',
    ' ',
    '\n',
    '1',
    '1.',
    'a'
  ]
  // With backtracking this would take minutes and exceed the timeout of the test.
  for (const language of [
    'javascript',
    'css',
    'html',
    'yaml',
    'ini',
    'markdown',
    'bash',
    'python',
    'sql',
    'json',
    'go',
    'ruby'
  ]) {
    for (const piece of pieces) {
      const startedMs = performance.now()
      t.equal(readCode(piece.repeat(Math.floor(60_000 / piece.length)), language).spans(0).length > 0, piece !== '\n')
      const tookMs = performance.now() - startedMs
      if (tookMs > 100) t.comment(`${language} of ${JSON.stringify(piece)}: ${Math.round(tookMs)} ms`)
    }
  }
})
