import { mock } from 'node:test'
import t from 'tap'
import { createResource, silenceMs } from '../../../www/state/resource.js'

t.test('keeps its value after a failed reload, and clears the error after the next success', async t => {
  const answers: Array<() => string> = [
    () => 'first',
    () => {
      throw new Error('away')
    },
    () => 'second'
  ]
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

t.test('cancels an older request when a newer one starts', async t => {
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
  t.same(
    signals.map(signal => signal.aborted),
    [true, false]
  )
})

t.test('a refresh waits for the request in progress', async t => {
  const waiting: Array<(value: string) => void> = []
  const resource = createResource<string>({
    load: () => new Promise(resolve => waiting.push(resolve)),
    onChange: () => {},
    signal: new AbortController().signal
  })
  const first = resource.load()
  await resource.refresh()
  t.equal(waiting.length, 1, 'nothing more was asked')
  waiting[0]?.('first')
  await first
  const second = resource.refresh()
  waiting[1]?.('second')
  await second
  t.equal(resource.value, 'second')
})

t.test('a refresh without an answer times out, and the next one sends a new request', async t => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const signals: AbortSignal[] = []
  let silences = 0
  let isSilent = true
  const resource = createResource<string>({
    load: async signal => {
      signals.push(signal)
      return isSilent ? new Promise<string>(() => {}) : 'there'
    },
    onChange: () => {},
    onSilence: () => silences++,
    signal: new AbortController().signal
  })
  const silent = resource.refresh()
  mock.timers.tick(silenceMs)
  await silent
  t.match(resource.error, { name: 'Unreachable' })
  t.equal(silences, 1)
  t.ok(signals[0]?.aborted)
  isSilent = false
  await resource.refresh()
  t.same([resource.value, resource.error, silences], ['there', undefined, 1])
})
