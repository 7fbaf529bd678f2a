import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type * as Replicated from '../../lib/cluster/replicated-store.js'
import type { Reader } from '../../lib/core/store/database.js'
import { digestOf } from './database-digest.js'
import type { HubProcessOptions } from './hub-processes.js'

/*
 * A hub of a cluster as a process of its own: `node hub-process.js <options as JSON>`. It opens the store of a hub and
 * serves what tests ask of it over HTTP. `lib` is the directory of the program, so that another version can run beside this
 * one. It prints a line when it is open.
 */

const options = JSON.parse(process.argv[2] as string) as HubProcessOptions
const { openReplicatedStore } = (await import(
  pathToFileURL(join(options.lib, 'cluster/replicated-store.js')).href
)) as typeof Replicated

const store = await openReplicatedStore({
  ...options,
  clusterKey: Buffer.from(options.clusterKey, 'base64'),
  fetchImage: async ({ url }, signal) => {
    const [response] = await new Promise<[IncomingMessage]>((resolve, reject) =>
      request(`${url}/image`, { signal }, response => resolve([response]))
        .on('error', reject)
        .end()
    )
    if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}`)
    return response
  },
  warn: sentence => console.error(`${options.hub.name}: ${sentence}`),
  onWaiting: sentence => console.log(`waiting: ${sentence}`)
}).catch((error: Error) => {
  // As the command does: a refusal is a sentence.
  console.error(`${options.hub.name}: ${error.message}`)
  process.exit(1)
})

type Answer = [status: number, body: object | string]

const routes: Record<string, (query: URLSearchParams) => Promise<Answer> | Answer> = {
  '/role': () => [200, { ...store.role(), state: store.state() }],
  '/write': async query => [200, { seen: await write(query), sequence: store.sequence() }],
  '/read': async query => [200, { seen: await store.write(tx => valueOf(tx, key(query))), sequence: store.sequence() }],
  '/local': query => [200, { seen: valueOf(store, key(query)), sequence: store.sequence() }],
  '/counts': () => [
    200,
    Object.fromEntries(
      store
        .all("SELECT key, value FROM settings WHERE key LIKE 'count-%'")
        .map(({ key, value }) => [key, Number(value)])
    )
  ],
  '/content': () => [200, { digest: digestOf(store), sequence: store.sequence() }],
  '/hubs': async () => [200, await store.hubs()],
  '/resign': async () => [200, { done: await store.resign().then(() => true) }],
  '/checkpoint': async () => [200, { done: await store.checkpoint().then(() => true) }]
}

const key = (query: URLSearchParams): string => query.get('key') as string

function valueOf(db: Reader, name: string): string | null {
  return (db.get('SELECT value FROM settings WHERE key = ?', name)?.['value'] ?? null) as string | null
}

/** Sets a value, if the present one is `from` (when given), and counts the write of a writer. Returns the earlier value. */
function write(query: URLSearchParams): Promise<string | null> {
  const set = 'INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value'
  return store.write(tx => {
    const seen = valueOf(tx, key(query))
    if (query.has('from') && (query.get('from') || null) !== seen) return seen
    tx.run(set, key(query), query.get('value') as string)
    const counter = query.get('counter')
    if (counter !== null) tx.run(set, `count-${counter}`, String(Number(valueOf(tx, `count-${counter}`) ?? 0) + 1))
    return seen
  })
}

async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(incoming.url as string, 'http://hub')
  if (pathname === '/image') {
    const image = await store.image()
    for (const piece of image.pieces) response.write(piece)
    image.release()
    response.end()
    return
  }
  const [status, body] = await (routes[pathname]?.(searchParams) ?? [404, {}])
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

const server = createServer((incoming, response) => {
  answer(incoming, response).catch((error: { code?: string; message: string }) => {
    response.writeHead(503).end(JSON.stringify({ code: error.code ?? 'bug', message: error.message }))
  })
})
server.listen(Number(new URL(options.hub.url).port), '127.0.0.1', () => console.log('open'))
process.once('SIGTERM', () => {
  server.close()
  server.closeAllConnections()
  void store.close().then(() => process.exit(0))
})
