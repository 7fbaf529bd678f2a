import t from 'tap'
import { faultOfHistory, type RegisterOperation } from './linearizable.js'
import { createRandom } from './random.js'

const write = (value: string, call: number, end: number | null): RegisterOperation => ({
  kind: 'write',
  call,
  end,
  value
})
const read = (seen: string | null, call: number, end: number): RegisterOperation => ({
  kind: 'read',
  call,
  end,
  value: null,
  seen
})
const swap = (from: string | null, value: string, seen: string | null, [call, end]: [number, number | null]) => ({
  kind: 'swap' as const,
  call,
  end,
  value,
  from,
  ...(end !== null && { seen })
})

const good: Array<[what: string, history: RegisterOperation[]]> = [
  ['nothing', []],
  ['a read of the beginning', [read(null, 1, 2)]],
  ['one after the other', [write('a', 1, 2), read('a', 3, 4), write('b', 5, 6), read('b', 7, 8)]],
  ['a read at the same time, before or after', [write('a', 1, 10), read(null, 2, 3), read('a', 4, 5)]],
  ['two writes at once, seen in either order', [write('a', 1, 10), write('b', 2, 9), read('b', 11, 12)]],
  ['a write of unknown outcome that nobody saw', [write('a', 1, 2), write('b', 3, null), read('a', 4, 5)]],
  ['one that appears much later', [write('b', 1, null), write('a', 2, 3), read('a', 4, 5), read('b', 90, 91)]],
  ['a swap that found what it sought', [write('a', 1, 2), swap('a', 'b', 'a', [3, 4]), read('b', 5, 6)]],
  ['a swap that did not', [write('a', 1, 2), swap('x', 'b', 'a', [3, 4]), read('a', 5, 6)]],
  ['a swap of unknown outcome that was seen', [write('a', 1, 2), swap('a', 'b', null, [3, null]), read('b', 5, 6)]],
  ['a call at the moment of a return', [write('a', 1, 2), read(null, 2, 3)]]
]
for (const [what, history] of good) t.test(`accepts ${what}`, async t => t.equal(faultOfHistory(history, null), null))

const bad: Array<[what: string, history: RegisterOperation[]]> = [
  ['a lost write', [write('a', 1, 2), read(null, 3, 4)]],
  ['an old value after a new one', [write('a', 1, 2), write('b', 3, 4), read('b', 5, 6), read('a', 7, 8)]],
  ['a value that nobody wrote', [write('a', 1, 2), read('z', 3, 4)]],
  ['a value before it was written', [read('a', 1, 2), write('a', 3, 4)]],
  [
    'two readers who disagree about the order',
    [write('a', 1, 20), write('b', 1, 20), read('a', 21, 22), read('b', 23, 24)]
  ],
  [
    'a value that appears, disappears and appears',
    [write('b', 1, null), write('a', 2, 3), read('b', 4, 5), read('a', 6, 7)]
  ],
  ['two swaps that both found the same', [write('a', 1, 2), swap('a', 'b', 'a', [3, 9]), swap('a', 'c', 'a', [3, 9])]],
  ['a swap that was not carried out', [write('a', 1, 2), swap('a', 'b', 'a', [3, 4]), read('a', 5, 6)]]
]
for (const [what, history] of bad) t.test(`refuses ${what}`, async t => t.type(faultOfHistory(history, null), 'string'))

/** A history of a real register, with clients whose calls overlap. */
function aHistory(seed: number, operations: number): RegisterOperation[] {
  const random = createRandom(seed)
  const history: RegisterOperation[] = []
  let value: string | null = null
  for (let at = 0; at < operations; at++) {
    const moment = at * 10 + 100
    const call = moment - random.below(60)
    const isUnknown = random.below(20) === 0
    const end = isUnknown ? null : moment + 1 + random.below(60)
    const kind = random.oneOf(['read', 'write', 'swap'] as const)
    if (kind === 'read') {
      if (!isUnknown) history.push(read(value, call, end as number))
      continue
    }
    const next = `v${at}`
    const from: string | null = random.below(2) === 0 ? value : 'other'
    const happens = !isUnknown || random.below(2) === 0
    const operation: RegisterOperation =
      kind === 'write' ? write(next, call, end) : swap(from, next, value, [call, end])
    history.push(operation)
    if (happens && (kind === 'write' || from === value)) value = next
  }
  return history
}

t.test('accepts long histories of a real register, and finds one wrong read in each', async t => {
  for (let seed = 1; seed <= 10; seed++) {
    const history = aHistory(seed, 1500)
    const fault = faultOfHistory(history, null)
    if (fault !== null) t.fail(`seed ${seed}: ${fault}`)
    const reads = history.filter(({ kind, end }) => kind === 'read' && end !== null)
    const late = reads.at(-1) as RegisterOperation
    const early = reads[10] as RegisterOperation
    const wrong = history.map(operation => (operation === late ? { ...late, seen: early.seen ?? null } : operation))
    if (early.seen !== late.seen && faultOfHistory(wrong, null) === null) t.fail(`seed ${seed}: not found`)
  }
  t.pass('10 histories of 1500 operations')
})
