/*
 * GET of a parametrised route with a token check (issue: at least fastify's requests per second). Each server is a
 * process of its own; the load comes from this one: 64 connections, each asking again as soon as it has its answer.
 *
 *   node http.js                  the comparison
 *   node http.js serve <which>    one of the servers; prints its port
 */
import { fork, type ChildProcess } from 'node:child_process'
import { timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, type Socket, connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { Refusal } from '../../lib/base/errors.js'
import { json } from '../../lib/http/core/route.js'
import { HttpServer } from '../../lib/http/core/server.js'
import { compare, sized } from '../support/bench.js'
import { rivals } from '../support/rivals.js'

const requests = sized(40_000, 200)
const connections = sized(64, 4)
const token = Buffer.from('Bearer 0123456789abcdefghijklmnopqrstuvwxyzABCDEFG')
const versions = { fastify: '5.6.1' }

const project = {
  name: 'site',
  description: '',
  deployPath: '/srv/site',
  env: 'production',
  categoryId: null,
  pm2AppName: null,
  preDeployScript: 'npm ci',
  postDeployScript: 'systemctl reload nginx',
  postDeployAsync: false,
  tagIds: ['tag_1', 'tag_2'],
  status: 'success',
  createdAt: '2026-01-01T00:00:00.000Z',
  updatedAt: '2026-01-01T00:00:00.000Z'
}

function isAllowed(authorization: string | undefined): boolean {
  const given = Buffer.from(authorization ?? '')
  return given.length === token.length && timingSafeEqual(given, token)
}

interface FastifyRequest {
  headers: { authorization?: string }
  params: { id: string }
}
interface FastifyReply {
  code(status: number): FastifyReply
  send(body: unknown): void
}
interface Fastify {
  get(path: string, options: object, handle: (request: FastifyRequest, reply: FastifyReply) => void): void
  listen(options: { port: number; host: string }): Promise<string>
  server: { address(): unknown }
}

const servers: Record<string, () => Promise<number>> = {
  async ours() {
    const other = (method: 'GET' | 'POST', path: string) => ({ method, path, auth: 'admin', handle: () => json({}) })
    const server = new HttpServer({
      routes: [
        other('GET', '/api/projects'),
        other('POST', '/api/projects'),
        other('GET', '/api/logs'),
        other('GET', '/api/logs/:id'),
        {
          method: 'GET',
          path: '/api/projects/:id',
          auth: 'admin',
          handle: ({ params }) => json({ id: params['id'], ...project })
        }
      ],
      base: '',
      authorize(_route, { headers }) {
        if (!isAllowed(headers.authorization)) throw new Refusal('unauthorized', 'unauthorized', 'A token is needed')
        return undefined
      },
      trustedProxies: () => ['127.0.0.1'],
      log() {}
    })
    return (await server.listen({ host: '127.0.0.1', port: 0 })).port
  },
  async fastify() {
    const load = await rivals(versions)
    const create = (await load?.<(options: object) => Fastify>('fastify')) as (options: object) => Fastify
    const app = create({ logger: false })
    const preHandler = (request: FastifyRequest, reply: FastifyReply, done: () => void): void => {
      if (isAllowed(request.headers.authorization)) done()
      else reply.code(401).send({})
    }
    app.get('/api/projects', { preHandler }, (_request, reply) => reply.send({}))
    app.get('/api/logs/:id', { preHandler }, (_request, reply) => reply.send({}))
    app.get('/api/projects/:id', { preHandler }, (request, reply) => reply.send({ id: request.params.id, ...project }))
    await app.listen({ port: 0, host: '127.0.0.1' })
    return (app.server.address() as AddressInfo).port
  },
  async 'node:http'() {
    const server = createServer((request, response) => {
      const body = isAllowed(request.headers.authorization)
        ? JSON.stringify({ id: request.url?.slice(14), ...project })
        : ''
      response.writeHead(200, {
        'content-type': 'application/json; charset=utf-8',
        'content-length': Buffer.byteLength(body)
      })
      response.end(body)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  }
}

async function start(which: string): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(fileURLToPath(import.meta.url), ['serve', which])
  const [port] = (await once(child, 'message')) as [number]
  return { child, port }
}

/** Measures requests per second of `connections` clients that do not wait for each other. */
async function load(port: number): Promise<number> {
  const request =
    `GET /api/projects/proj_abcdefghijklmnop HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: ${token}\r\n` +
    'Accept: */*\r\nUser-Agent: bench\r\n\r\n'
  let left = requests
  const startedAt = process.hrtime.bigint()
  await Promise.all(
    Array.from(
      { length: connections },
      () =>
        new Promise<void>((resolve, reject) => {
          const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true }, () => socket.write(request))
          socket.on('error', reject)
          socket.on('data', chunk => {
            // Replies are small and come whole; the status and the end of the body prove it.
            if (chunk.toString('latin1', 9, 12) !== '200' || chunk[chunk.length - 1] !== 125)
              reject(new Error(chunk.toString()))
            if (left-- > 0) return void socket.write(request)
            socket.destroy()
            resolve()
          })
        })
    )
  )
  return requests / (Number(process.hrtime.bigint() - startedAt) / 1e9)
}

if (process.argv[2] === 'serve') {
  process.on('SIGINT', () => process.exit())
  process.send?.(await servers[process.argv[3] as string]?.())
} else {
  const hasFastify = (await rivals(versions)) !== null
  const names = Object.keys(servers).filter(name => name !== 'fastify' || hasFastify)
  const running = new Map<string, { child: ChildProcess; port: number }>()
  for (const name of names) running.set(name, await start(name))
  const run = (name: string) => {
    const server = running.get(name)
    return server === undefined ? null : () => load(server.port)
  }
  await compare({
    name: 'GET /api/projects/:id with the token check',
    unit: 'requests/s',
    contestants: { ours: run('ours'), fastify: run('fastify'), 'node:http': run('node:http') },
    goals: [{ beside: 'fastify', atLeast: 1 }]
  })
  for (const { child } of running.values()) child.kill()
}
