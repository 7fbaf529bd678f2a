import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ReceivedRequest {
  method: string
  path: string
  headers: IncomingHttpHeaders
  text: string
  atMs: number
  /** Resolves when the request was answered, or when the sender gave up. */
  closed: Promise<void>
}

/** The behaviour of a receiver: a status, or a failure. */
export type Behaviour =
  | number
  | 'hang'
  | 'reset'
  | 'redirect'
  | 'endless'
  | 'silent-body'
  | { status: number; body: string; headers?: Record<string, string> }

export interface Receiver {
  url: string
  port: number
  requests: ReceivedRequest[]
  /** The behaviour for each request; the last one applies to all that follow. */
  behave(...behaviours: Behaviour[]): void
  /** Resolves when this many requests have arrived. */
  received(count: number): Promise<ReceivedRequest[]>
}

/** Starts a receiver of notifications on loopback, closed after the test. */
export async function startReceiver(t: { teardown(work: () => unknown): void }): Promise<Receiver> {
  const requests: ReceivedRequest[] = []
  let behaviours: Behaviour[] = [200]
  const server = createServer(async (request, response) => {
    response.on('error', () => {})
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { method = '', url = '', headers } = request
    const closed = new Promise<void>(resolve => response.once('close', resolve))
    requests.push({
      method,
      path: url,
      headers,
      text: Buffer.concat(chunks).toString('utf8'),
      atMs: Date.now(),
      closed
    })
    answer(response, (behaviours.length > 1 ? behaviours.shift() : behaviours[0]) as Behaviour)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise(resolve => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    behave: (...given) => void (behaviours = given),
    async received(count) {
      const untilMs = Date.now() + 20_000
      while (requests.length < count && Date.now() < untilMs) await sleep(10)
      if (requests.length < count) throw new Error(`${requests.length} of ${count} requests came`)
      return requests.slice(0, count)
    }
  }
}

function answer(response: ServerResponse, behaviour: Behaviour): void {
  if (typeof behaviour === 'number') return void response.writeHead(behaviour).end('answered')
  if (typeof behaviour === 'object')
    return void response.writeHead(behaviour.status, behaviour.headers).end(behaviour.body)
  switch (behaviour) {
    case 'hang':
      return
    case 'reset':
      return void response.socket?.resetAndDestroy()
    case 'redirect':
      return void response.writeHead(302, { location: '/elsewhere' }).end()
    case 'silent-body':
      return void response.writeHead(200).write('the beginning')
    case 'endless': {
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(16 * 1024)));
        if (!response.destroyed) response.once('drain', more)
      }
      response.writeHead(200)
      more()
    }
  }
}
