import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import { checkLinks } from '../../lib/archive/links.js'

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
