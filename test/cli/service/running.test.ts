import t from 'tap'
import { EventEmitter } from 'node:events'
import { untilStopped, whereTokenShows } from '../../../lib/cli/service/running.js'
import type { Host } from '../../../lib/cli/host.js'
import type { RunningServer } from '../../../lib/server/serve.js'

t.test('the first signal waits for deployments, the second one does not', async t => {
  const signals = new EventEmitter()
  const stops: boolean[] = []
  const notes: string[] = []
  let end = (): void => {}
  const ended = new Promise<void>(resolve => (end = resolve))
  const server = {
    async stop({ wait }: { wait: boolean }) {
      stops.push(wait)
      await ended
    },
    isDeploying: () => true,
    reload: async () => {}
  } as unknown as RunningServer
  const running = untilStopped(Promise.resolve(server), undefined, {
    host: signals as unknown as Host,
    note: text => void notes.push(text)
  })
  signals.emit('SIGHUP')
  signals.emit('SIGTERM')
  signals.emit('SIGTERM')
  end()
  await running
  t.strictSame(stops, [true, false])
  t.equal(notes.length, 1)
})

t.test('an idle server says only that it stops', async t => {
  const signals = new EventEmitter()
  const notes: string[] = []
  const server = { stop: async () => {}, isDeploying: () => false } as unknown as RunningServer
  const starting = Promise.resolve(server)
  const running = untilStopped(starting, undefined, {
    host: signals as unknown as Host,
    note: text => void notes.push(text)
  })
  await starting
  signals.emit('SIGTERM')
  await running
  t.strictSame(notes, ['Stopping'])
})

t.test('the admin token is printed on a terminal, and where only its owner reads', async t => {
  const host = (isTTY: boolean, env: Record<string, string> = {}) => ({ env, stdout: { isTTY } }) as unknown as Host
  t.equal(await whereTokenShows(false, host(true)), 'always')
  t.equal(await whereTokenShows(false, host(false)), 'new')
  t.equal(await whereTokenShows(true, host(true)), 'never')
  t.equal(await whereTokenShows(false, host(true, { SVC_SUPERVISED: '1' })), 'never')
})
