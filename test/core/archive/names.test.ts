import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { checkLinks, checkNames, type NamedEntry, quoteName, readName } from '../../../lib/core/archive/names.js'

function codeOf(work: () => unknown): string {
  try {
    return `accepted: ${JSON.stringify(work())}`
  } catch (error) {
    if (error instanceof Refusal) return error.code
    throw error
  }
}

const everywhere: Array<[name: string, expected: string, what: string]> = [
  ['a/b.txt', 'accepted: "a/b.txt"', 'a plain path'],
  ['assets.d/a..b-c_d@2x.js', 'accepted: "assets.d/a..b-c_d@2x.js"', 'usual signs'],
  [`${'a/'.repeat(40)}b`, `accepted: "${'a/'.repeat(40)}b"`, 'many segments'],
  ['a/b/', 'accepted: "a/b"', 'a directory'],
  ['./a', 'accepted: "a"', 'a leading dot segment'],
  ['a/./b', 'accepted: "a/b"', 'a dot segment within'],
  ['./', 'accepted: ""', 'the target itself'],
  ['.', 'accepted: ""', 'the target itself, without slash'],
  ['...', 'accepted: "..."', 'three dots are a name'],
  ['..a/b..', 'accepted: "..a/b.."', 'dots around a name'],
  ['.env', 'accepted: ".env"', 'a dot file'],
  ['é/日本.txt', 'accepted: "é/日本.txt"', 'letters outside ASCII'],
  ['a b/c+d', 'accepted: "a b/c+d"', 'spaces and signs'],
  ['x'.repeat(255), `accepted: "${'x'.repeat(255)}"`, 'the longest segment'],
  ['', 'empty_name', 'no name'],
  ['/', 'absolute_path', 'the root'],
  ['/etc/passwd', 'absolute_path', 'absolute'],
  ['//host/share', 'absolute_path', 'a network path'],
  ['C:\\x', 'backslash_in_name', 'a drive with backslash'],
  ['C:/x', 'absolute_path', 'a drive'],
  ['c:x', 'absolute_path', 'a drive, relative'],
  ['a\\b', 'backslash_in_name', 'a backslash within'],
  ['..\\x', 'backslash_in_name', 'upwards with a backslash'],
  ['../x', 'path_leaves_target', 'upwards'],
  ['a/../../x', 'path_leaves_target', 'upwards through a directory'],
  ['a/..', 'path_leaves_target', 'upwards at the end'],
  ['..', 'path_leaves_target', 'the directory above'],
  ['a//b', 'empty_segment', 'an empty segment'],
  ['a//', 'empty_segment', 'an empty segment at the end'],
  ['a\0b', 'control_character_in_name', 'NUL'],
  ['a\nb', 'control_character_in_name', 'a newline'],
  ['a/b\n', 'control_character_in_name', 'a newline at the end'],
  ['a\u001b[31m', 'control_character_in_name', 'an escape sequence'],
  ['a\u007f', 'control_character_in_name', 'DEL'],
  ['a\u0085b', 'control_character_in_name', 'a control character of C1'],
  ['a\u009b31m', 'control_character_in_name', 'an escape sequence of C1'],
  ['a\u2028b', 'control_character_in_name', 'a line separator'],
  ['photo\u202egpj.exe', 'invisible_character_in_name', 'right to left from here'],
  ['dir\u2066/a', 'invisible_character_in_name', 'an isolate, in a directory'],
  ['a\u200f', 'invisible_character_in_name', 'a direction mark'],
  ['a\u061c', 'invisible_character_in_name', 'the Arabic letter mark'],
  ['index\u200b.html', 'invisible_character_in_name', 'a space without width'],
  ['\ufeffindex.html', 'invisible_character_in_name', 'a byte order mark'],
  ['in\u00addex.html', 'invisible_character_in_name', 'a soft hyphen'],
  ['in\u2060dex.html', 'invisible_character_in_name', 'a word joiner'],
  [
    '\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645',
    'accepted: "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"',
    'Persian, which is spelt with a non-joiner'
  ],
  [
    '\ud83d\udc68\u200d\ud83d\udcbb.png',
    'accepted: "\ud83d\udc68\u200d\ud83d\udcbb.png"',
    'an emoji that is joined of two'
  ],
  ['a\ufffd', 'undecodable_name', 'what is left of invalid UTF-8'],
  ['a\ud800b', 'undecodable_name', 'half a surrogate pair'],
  ['x'.repeat(256), 'name_too_long', 'a segment too long'],
  ['é'.repeat(128), 'name_too_long', 'a segment too long in bytes only'],
  [`${'abc/'.repeat(800)}x`, 'name_too_long', 'a path too long'],
  ['.svc-staging-dep_x/files/a', 'reserved_name', "svc's own directory"]
]

t.test('reads or refuses names', async t => {
  for (const [name, expected, what] of everywhere)
    t.equal(
      codeOf(() => readName(name, { windows: false })),
      expected,
      what
    )
})

t.test('refuses names that are invalid only on Windows', async t => {
  for (const name of [
    'CON',
    'nul.txt',
    'a/COM1',
    'lpt9.log',
    'a:b/c'.slice(1),
    'x?',
    'a|b',
    'dot.',
    'space ',
    'a./b'
  ]) {
    t.equal(
      codeOf(() => readName(name, { windows: true })),
      'reserved_name',
      name
    )
  }
  t.equal(
    codeOf(() => readName('CON', { windows: false })),
    'accepted: "CON"'
  )
  t.equal(
    codeOf(() => readName('console.log', { windows: true })),
    'accepted: "console.log"'
  )
  t.equal(
    codeOf(() => readName('./a', { windows: true })),
    'accepted: "a"'
  )
})

const file = (path: string): NamedEntry => ({ path, kind: 'file' })
const directory = (path: string): NamedEntry => ({ path, kind: 'directory' })
const link = (path: string): NamedEntry => ({ path, kind: 'symlink' })

t.test('checks names against each other', async t => {
  const none = { letterCase: false, normalForm: false }
  const all = { letterCase: true, normalForm: true }
  const cases: Array<[entries: NamedEntry[], folds: typeof none, expected: string, what: string]> = [
    [[file('a'), file('a')], none, 'duplicate_entry', 'a file twice'],
    [[directory('a'), directory('a')], none, 'accepted: undefined', 'a directory twice is the same directory'],
    [[file('a'), directory('a')], none, 'file_and_directory', 'file first'],
    [[directory('a'), file('a')], none, 'file_and_directory', 'directory first'],
    [[file('a'), file('a/b')], none, 'file_and_directory', 'a file below a file'],
    [[file('a/b/c/d'), file('a/b')], none, 'file_and_directory', 'a file where parents are implied'],
    [[link('a'), file('a/b')], none, 'written_through_link', 'a file below a link'],
    [[file('a/b/c'), link('a')], none, 'written_through_link', 'a link above a file, later'],
    [[link('a'), directory('a')], none, 'written_through_link', 'a link that is a directory as well'],
    [[file('a'), file('A')], none, 'accepted: undefined', 'case where it matters not'],
    [[file('a'), file('A')], all, 'duplicate_entry', 'case where it matters'],
    [[file('a/x'), file('A/y')], all, 'duplicate_entry', 'directories by case'],
    [[file('\u00e9'), file('e\u0301')], none, 'accepted: undefined', 'two forms of é where both can be'],
    [[file('\u00e9'), file('e\u0301')], all, 'duplicate_entry', 'two forms of é where they fold'],
    [
      [file('\u00e9'), file('e\u0301')],
      { letterCase: true, normalForm: false },
      'accepted: undefined',
      'only case folds'
    ]
  ]
  for (const [entries, folds, expected, what] of cases) {
    t.equal(
      codeOf(() => checkNames(entries, { windows: false, folds: () => folds })),
      expected,
      what
    )
  }
})

t.test('refuses entries that imply far more directories than files', async t => {
  const rules = { windows: false, folds: () => ({ letterCase: false, normalForm: false }) }
  const many = Array.from({ length: 100 }, (_, index) => file(`${`${'d/'.repeat(1000)}`.replace('d', `d${index}`)}f`))
  t.equal(
    codeOf(() => checkNames(many, rules)),
    'too_many_directories'
  )
  const deep = Array.from({ length: 2 }, (_, index) => file(`${index}/${'d/'.repeat(1400)}f`))
  t.equal(
    codeOf(() => checkNames(deep, rules)),
    'accepted: undefined',
    'a few may be deep'
  )
  const ordinary = Array.from({ length: 20_000 }, (_, index) =>
    file(`module-${index}/src/main/java/com/example/App.java`)
  )
  t.equal(
    codeOf(() => checkNames(ordinary, rules)),
    'accepted: undefined',
    'six directories for each file'
  )
})

t.test('checks the file system only if the result matters', async () => {
  checkNames([file('a'), file('b')], {
    windows: false,
    folds: () => {
      throw new Error('asked')
    }
  })
})

t.test('quotes a hostile name short and harmless', async t => {
  t.equal(quoteName('a\u202egpj.exe'), '"a\ufffdgpj.exe"')
  t.equal(quoteName('a\u200b\u2028\u009b\ud800'), '"a\ufffd\ufffd\ufffd\ufffd"')
  t.ok(quoteName('x'.repeat(5000)).length < 250)
})

const cases: Array<[links: Record<string, string>, inTarget: Record<string, string>, expected: string, what: string]> =
  [
    [{ a: 'b' }, {}, 'fine', 'beside it'],
    [{ a: 'missing/deep' }, {}, 'fine', 'to nothing, within'],
    [{ 'x/a': '../b' }, {}, 'fine', 'one up, within'],
    [{ a: '.' }, {}, 'fine', 'the target itself'],
    [{ a: './b//c/' }, {}, 'fine', 'untidy, within'],
    [{ a: 'b', b: 'c', c: 'd' }, {}, 'fine', 'a chain'],
    [{ a: '..' }, {}, 'link_leaves_target', 'the directory above'],
    [{ 'x/a': '../../b' }, {}, 'link_leaves_target', 'two up from one down'],
    [{ a: '/etc/passwd' }, {}, 'link_leaves_target', 'absolute'],
    [{ a: 'C:/x' }, {}, 'link_leaves_target', 'a drive'],
    [{ a: '..\\x' }, {}, 'link_leaves_target', 'a backslash'],
    [{ a: 'b/../../c' }, {}, 'link_leaves_target', 'down and up'],
    [{ 'a/b/c': '../..', d: 'a/b/c/..' }, {}, 'link_leaves_target', 'upwards from where another link leads'],
    [{ a: 'old/x' }, { old: '/data' }, 'link_leaves_target', 'through a link of the target that leads out'],
    [{ a: 'old/../..' }, { old: 'b/c' }, 'fine', 'through a link of the target, and back up within'],
    [{ a: 'old/..' }, { old: '.' }, 'link_leaves_target', 'above a link of the target'],
    [{ a: 'b', b: 'a' }, {}, 'link_loop', 'a circle'],
    [{ a: 'a' }, {}, 'link_loop', 'to itself'],
    [{ a: '' }, {}, 'empty_link', 'to nothing'],
    [{ a: 'b\0c' }, {}, 'empty_link', 'NUL'],
    [{ a: 'b\u202ec' }, {}, 'invisible_character_in_name', 'a name that turns round'],
    [{ a: 'b\ufffdc' }, {}, 'undecodable_name', 'invalid UTF-8']
  ]

t.test('refuses links that leave the target', async t => {
  for (const [links, inTarget, expected, what] of cases) {
    let outcome = 'fine'
    try {
      checkLinks(new Map(Object.entries(links)), path => inTarget[path] ?? null)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      outcome = error.code
    }
    t.equal(outcome, expected, what)
  }
})

/** Returns the number of lookups in the target, and the refusal's code. */
function follow(links: Map<string, string>, check = (): void => {}): { asked: number; outcome: string } {
  let asked = 0
  try {
    checkLinks(
      links,
      () => {
        asked++
        return null
      },
      check
    )
    return { asked, outcome: 'fine' }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { asked, outcome: error.code }
  }
}

t.test('follows a link once, however many others lead through it', async t => {
  // Each link takes 40 steps of its own, and then passes through the next one: 39 in a chain, and 20 such chains.
  const chained = (index: number): string => `${'d/../'.repeat(20)}${index % 39 === 0 ? 'end' : `l${index - 1}`}`
  const links = new Map(Array.from({ length: 39 * 20 }, (_, index) => [`l${index}`, chained(index)]))
  const { asked, outcome } = follow(links)
  t.equal(outcome, 'fine')
  t.ok(asked <= links.size * 25, `${asked} looks at the target for ${links.size} links`)
})

t.test('refuses links that take too many steps, and can be aborted', async t => {
  const deep = 'd/'.repeat(2040)
  const links = new Map(Array.from({ length: 2000 }, (_, index) => [`${index}`, deep]))
  const { asked, outcome } = follow(links)
  t.equal(outcome, 'links_too_long')
  t.ok(asked < 100_000, `${asked} looks at the target`)
  t.throws(
    () =>
      follow(links, () => {
        throw new Error('given up')
      }),
    { message: 'given up' }
  )
})

t.test('accepts many ordinary links', async t => {
  const path = (index: number): string => `node_modules/.pnpm/package-${index}@1.0.0/node_modules/@scope/dependency`
  const links = new Map(
    Array.from({ length: 20_000 }, (_, index) => {
      return [path(index), `../../../package-${index + 1}@1.0.0/node_modules/@scope/dependency`]
    }).reverse() as Array<[string, string]>
  )
  for (const [index, link] of [...links.keys()].entries()) if (index % 20 === 0) links.set(link, '../real')
  t.equal(follow(links).outcome, 'fine')
})

t.test('limits the length of a chain as Linux does, in any order of its links', async t => {
  for (const [length, expected] of [
    [40, 'fine'],
    [41, 'link_loop']
  ] as const) {
    const chain = Array.from({ length }, (_, index): [string, string] => [`l${index}`, `l${index + 1}`])
    t.equal(follow(new Map(chain)).outcome, expected, `${length} from the front`)
    t.equal(follow(new Map(chain.reverse())).outcome, expected, `${length} from the back`)
  }
})
