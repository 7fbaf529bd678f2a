import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import t from 'tap'
import { checkAddress, listenError } from '../../../lib/http/core/listen-address.js'

t.test('releases the address after checkAddress', async t => {
  await checkAddress({ host: '127.0.0.1', port: 0 })
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await t.rejects(checkAddress({ host: '127.0.0.1', port }), {
    kind: 'conflict',
    code: 'address_in_use',
    field: '--port'
  })
  server.close()
  await once(server, 'close')
  await checkAddress({ host: '127.0.0.1', port })
  await checkAddress({ host: '127.0.0.1', port })
})

t.test("maps the system's errors to the option that caused them", async t => {
  const rows = [
    ['EADDRINUSE', 'address_in_use', '--port'],
    ['EACCES', 'invalid_address', '--port'],
    ['EADDRNOTAVAIL', 'invalid_address', '--host'],
    ['EAFNOSUPPORT', 'invalid_address', '--host'],
    ['EINVAL', 'invalid_address', '--host'],
    ['EAI_AGAIN', 'invalid_address', '--host']
  ] as const
  for (const [error, code, field] of rows) {
    const cause = Object.assign(new Error(error), { code: error })
    t.match(listenError(cause, { host: '::1', port: 80 }), {
      name: 'Refusal',
      code,
      field,
      cause,
      message: /^Cannot listen on \[::1\]:80: ./
    })
  }
  const other = Object.assign(new Error('too many files'), { code: 'EMFILE' })
  t.equal(listenError(other, { host: '::1', port: 80 }), other, 'the error is returned unchanged')
})
