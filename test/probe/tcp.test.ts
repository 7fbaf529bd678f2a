import { createServer, type AddressInfo } from 'node:net'
import t from 'tap'
import { probeTcp } from '../../lib/probe/tcp.js'

const never = new AbortController().signal
const probe = (port: number, host = '127.0.0.1') => probeTcp({ host, port, hosts: [], timeoutMs: 2000, signal: never })

t.test('opens a connection and closes it without sending anything', async t => {
  const received: Buffer[] = []
  let resolveEnd = (): void => {}
  const ended = new Promise<void>(resolve => (resolveEnd = resolve))
  const server = createServer(socket => {
    socket.on('data', data => received.push(data))
    socket.on('error', () => {})
    socket.on('close', resolveEnd)
    socket.resume()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  t.equal(await probe(port), null)
  await ended
  t.strictSame(received, [])
  await new Promise(resolve => server.close(resolve))
  t.match(await probe(port), /connection refused/)
})

t.test('refuses hosts that the setting does not name', async t => {
  t.match(await probe(5432, '192.0.2.1'), /gate_hosts/)
})

t.test('an abort rejects with its reason', async t => {
  const signal = AbortSignal.abort(new Error('cancelled'))
  await t.rejects(probeTcp({ host: '127.0.0.1', port: 1, hosts: [], timeoutMs: 100, signal }), { message: 'cancelled' })
})
