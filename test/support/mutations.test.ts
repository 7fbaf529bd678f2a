import t from 'tap'
import { findMutations, mutated } from './mutations.js'

function changesOf(source: string): string[] {
  return findMutations(source).map(mutation => mutated(source, mutation))
}

const cases: Array<[source: string, changed: string[]]> = [
  ['if (a) b()', ['if (!(a)) b()']],
  ['const c = a < 1', ['const c = (a <= 1)']],
  ['const c = a ? 1 : 2', ['const c = !(a) ? 1 : 2']],
  ['while (a > 1 && b) c()', ['while (!(a > 1 && b)) c()', 'while ((a > 1 || b)) c()', 'while ((a >= 1) && b) c()']],
  ['const c = a || b && d', ['const c = (a && b && d)', 'const c = a || (b || d)']],
  ['f(a === null)', ['f((a !== null))']],
  ['const c = a + 1', []],
  ['f(performance.now() > untilMs)', []],
  ['f(ms <= 0)', []],
  ['if (endMs < 1) f()', ['if (!(endMs < 1)) f()']],
  ['if (isWindows && a) b()', []],
  ["f(process.platform === 'darwin')", []]
]

for (const [source, changed] of cases) {
  t.test(source, async t => t.strictSame(changesOf(source), changed))
}

t.test('each change is identified by its position', async t => {
  const [first, second] = findMutations('f(a < 1); f(a < 1)')
  t.match(first, { text: 'a < 1', replacement: '(a <= 1)' })
  t.not(first?.start, second?.start)
})
