import t from 'tap'
import { keepBack, withoutKept } from '../../../lib/core/proc/kept-descriptors.js'

const hidden = (): number[] =>
  withoutKept(['pipe', 'pipe'], stdio => stdio.flatMap((each, fd) => (typeof each === 'number' ? [fd] : [])))

t.test('withholds a descriptor until its holder releases it', async t => {
  const letGo = keepBack(40)
  const other = keepBack(42)
  t.strictSame(hidden(), [40, 42])
  letGo()
  t.strictSame(hidden(), [42])
  letGo()
  other()
  t.strictSame(hidden(), [])
})

t.test('keeps withholding a reused number if its former holder releases it late', async t => {
  const former = keepBack(40)
  const now = keepBack(40)
  former()
  t.strictSame(hidden(), [40])
  now()
  t.strictSame(hidden(), [])
})

t.test('never replaces the standard streams', async t => {
  const letGo = keepBack(1)
  t.strictSame(
    withoutKept(['pipe', 'pipe'], stdio => stdio),
    ['pipe', 'pipe']
  )
  letGo()
})
