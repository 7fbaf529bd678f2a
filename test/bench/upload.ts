/*
 * A form with a file of 1 GiB over loopback to disk (issue: RSS of the server under 150 MB, at least 70 % of a bare
 * node:http server that writes the body to a file). Each server is a process of its own and reports its peak RSS.
 *
 *   node upload.js                  the comparison
 *   node upload.js serve <which>    one of the servers; prints its port
 */
import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { parseMultipart } from '../../lib/http/form/multipart.js'
import { json, streamedBody } from '../../lib/http/core/route.js'
import { HttpServer } from '../../lib/http/core/server.js'
import { compare, sized } from '../support/bench.js'

const fileBytes = sized(1024 ** 3, 1024 ** 2)
const chunk = randomBytes(64 * 1024)
const boundary = '----WebKitFormBoundary7MA4YWxkTrZu0gW'
const head = Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n`)
const tail = Buffer.from(`\r\n--${boundary}--\r\n`)

const servers: Record<string, (path: string) => Promise<number>> = {
  async ours(path) {
    const server = new HttpServer({
      routes: [
        {
          method: 'POST',
          path: '/upload',
          auth: 'public',
          body: streamedBody,
          async handle({ body, headers }) {
            await parseMultipart(body, headers['content-type'], {
              field() {},
              file: ({ stream }) => pipeline(stream, createWriteStream(path))
            })
            return json({})
          }
        }
      ],
      base: '',
      authorize: () => undefined,
      trustedProxies: () => [],
      log() {}
    })
    return (await server.listen({ host: '127.0.0.1', port: 0 })).port
  },
  async 'node:http'(path) {
    const server = createServer(async (request, response) => {
      await pipeline(request, createWriteStream(path))
      response.end()
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }
}

function* form(): Generator<Buffer> {
  yield head
  for (let sent = 0; sent < fileBytes; sent += chunk.length) yield chunk
  yield tail
}

/** Returns the MB/s of one upload. */
async function upload(port: number): Promise<number> {
  const startedAt = process.hrtime.bigint()
  const request = httpRequest({
    port,
    path: '/upload',
    method: 'POST',
    agent: false,
    headers: {
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'content-length': head.length + fileBytes + tail.length
    }
  })
  const answered = once(request, 'response')
  await pipeline(Readable.from(form(), { objectMode: false, highWaterMark: 1024 * 1024 }), request)
  const [response] = await answered
  if (response.statusCode !== 200) throw new Error(`Status ${response.statusCode}`)
  response.resume()
  return fileBytes / 1024 / 1024 / (Number(process.hrtime.bigint() - startedAt) / 1e9)
}

async function withServers(directory: string): Promise<void> {
  const running = new Map<string, { child: ChildProcess; port: number }>()
  for (const name of Object.keys(servers)) {
    const child = fork(fileURLToPath(import.meta.url), ['serve', name, join(directory, name.replace(':', '-'))])
    const [port] = (await once(child, 'message')) as [number]
    running.set(name, { child, port })
  }
  const run = (name: string) => () => upload(running.get(name)?.port as number)
  try {
    await compare({
      name: 'upload: a form with a file of 1 GiB, over loopback to disk',
      unit: 'MB/s',
      contestants: { ours: run('ours'), 'node:http': run('node:http') },
      goals: [{ beside: 'node:http', atLeast: 0.7 }]
    })
    const written = await stat(join(directory, 'ours'))
    if (written.size !== fileBytes) throw new Error(`${written.size} bytes were written`)
    for (const [name, { child }] of running) {
      child.send('peak')
      const [peakBytes] = (await once(child, 'message')) as [number]
      console.log(
        `  peak RSS of ${name}: ${Math.round(peakBytes / 1024 / 1024)} MB${name === 'ours' ? ' (target: under 150)' : ''}`
      )
    }
  } finally {
    for (const { child } of running.values()) child.kill()
  }
}

if (process.argv[2] === 'serve') {
  process.send?.(await servers[process.argv[3] as string]?.(process.argv[4] as string))
  process.on('message', () => process.send?.(process.resourceUsage().maxRSS * 1024))
} else {
  const directory = await mkdtemp(join(tmpdir(), 'svc-bench-'))
  try {
    await withServers(directory)
  } finally {
    await rm(directory, { recursive: true })
  }
}
