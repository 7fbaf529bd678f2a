import t from 'tap'
import { keepBack, withoutKept } from '../../lib/proc/kept-descriptors.js'

const hidden = (): number[] => withoutKept(['pipe', 'pipe'], stdio => stdio.flatMap((each, fd) => (typeof each === 'number' ? [fd] : [])))

t.test('a descriptor is kept back until its holder lets it go', async t => {
  const letGo = keepBack(40)
  const other = keepBack(42)
  t.strictSame(hidden(), [40, 42])
  letGo()
  t.strictSame(hidden(), [42])
  letGo()
  other()
  t.strictSame(hidden(), [])
})

t.test('what has the number of a descriptor that was closed stays kept, although its former holder lets go late', async t => {
  const former = keepBack(40)
  const now = keepBack(40)
  former()
  t.strictSame(hidden(), [40])
  now()
  t.strictSame(hidden(), [])
})

t.test('the standard streams are never replaced', async t => {
  const letGo = keepBack(1)
  t.strictSame(withoutKept(['pipe', 'pipe'], stdio => stdio), ['pipe', 'pipe'])
  letGo()
})
