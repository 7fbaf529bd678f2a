import t from 'tap'
import { Refusal } from '../../lib/base/refusal.js'
import { checkLinks } from '../../lib/archive/links.js'

const cases: Array<[links: Record<string, string>, inTarget: Record<string, string>, expected: string, what: string]> = [
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
  [{ a: 'b\0c' }, {}, 'empty_link', 'NUL']
]

t.test('links lead within the target, or are refused', async t => {
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
