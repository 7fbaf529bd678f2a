import http from 'node:http'
import type { Test } from 'tap'
import { createClient, type Client } from '../../lib/cli/client/client.js'
import { urlOf } from './on-loopback.js'

/** Returns a client of the command line for a server that answers like this, and ends with the test. */
export async function clientOf(t: Pick<Test, 'teardown'>, handle: http.RequestListener): Promise<Client> {
  const server = http.createServer(handle)
  const serverUrl = await urlOf(t, server)
  return createClient({ serverUrl, token: { value: 'token', from: '--token', origin: null }, env: {} })
}
