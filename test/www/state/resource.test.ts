import t from 'tap'
import { createResource } from '../../../www/state/resource.js'

t.test('a value survives a failed reload, the error goes with the next success', async t => {
  const answers: Array<() => string> = [() => 'first', () => { throw new Error('away') }, () => 'second']
  let changes = 0
  const resource = createResource({
    load: async () => (answers.shift() as () => string)(),
    onChange: () => changes++,
    signal: new AbortController().signal
  })
  await resource.load()
  t.same([resource.value, resource.error], ['first', undefined])
  await resource.load()
  t.match([resource.value, resource.error], ['first', { message: 'away' }])
  await resource.load()
  t.same([resource.value, resource.error, changes], ['second', undefined, 3])
})

t.test('only the newest request counts, the older one is given up', async t => {
  const waiting: Array<(value: string) => void> = []
  const signals: AbortSignal[] = []
  const resource = createResource<string>({
    load: signal => {
      signals.push(signal)
      return new Promise(resolve => waiting.push(resolve))
    },
    onChange: () => {},
    signal: new AbortController().signal
  })
  const first = resource.load()
  const second = resource.load()
  waiting[1]?.('new')
  waiting[0]?.('old')
  await Promise.all([first, second])
  t.equal(resource.value, 'new')
  t.same(signals.map(signal => signal.aborted), [true, false])
})
