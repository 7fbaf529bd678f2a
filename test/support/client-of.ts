import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { createClient, type Client } from '../../lib/cli/client/client.js'

/** Returns a client of the command line for a server that answers like this, and ends with the test. */
export async function clientOf(t: Pick<Test, 'teardown'>, handle: http.RequestListener): Promise<Client> {
  const server = http.createServer(handle).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const serverUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return createClient({ serverUrl, token: { value: 'token', from: '--token', origin: null }, env: {} })
}
