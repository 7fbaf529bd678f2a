/**
 * `GET /api/projects/:id` with the token check: requests per second with a named token, beside the admin token, and
 * beside fastify, which answers the same bytes from a map after the same check of a digest. Each server has a process of
 * its own; the load comes over 32 connections that stay open.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { compare, sized } from '../support/bench.js'
import { findProgram } from '../support/programs.js'
import { secondsOf } from '../support/processor-time.js'
import { rivals } from '../support/rivals.js'

const connections = 32
const roundMs = sized(2000, 50)
const token = 'bench-admin-token-0123456789'
const projectCount = 20
const top = fileURLToPath(new URL('../../../', import.meta.url))
const stage = mkdtempSync(join(tmpdir(), 'svc-bench-api-'))

interface Contestant {
  url: URL
  process: ChildProcess
}

/** Starts a program that prints its address. */
async function start(command: string[], env: Record<string, string>): Promise<Contestant> {
  const [program, ...words] = command as [string, ...string[]]
  const child = spawn(program, words, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'ignore'] })
  let text = ''
  const address = await new Promise<string>((resolve, reject) => {
    child.once('exit', code => reject(new Error(`It ended with ${code}`)))
    child.stdout.on('data', (bytes: Buffer) => {
      text += bytes.toString()
      const found = /http:\/\/[\w.:]+/.exec(text)?.[0]
      if (found !== undefined) resolve(found)
    })
  })
  return { url: new URL(address), process: child }
}

/** What a measurement divides by: time, or processor time of the server, which other programs do not change. */
type Per = 'second' | 'processor second'

/** Measures requests per second. Each connection sends its next request after the reply to the last one. */
async function load({ url, process }: Contestant, bearer: string, per: Per): Promise<number> {
  const request = `GET ${path} HTTP/1.1\r\nHost: ${url.host}\r\nAuthorization: Bearer ${bearer}\r\n\r\n`
  const untilMs = performance.now() + roundMs
  let replies = 0
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect(Number(url.port), url.hostname, () => socket.write(request))
      let held = ''
      socket.setNoDelay(true)
      socket.on('data', bytes => {
        held += bytes.toString('latin1')
        const head = held.indexOf('\r\n\r\n')
        if (head === -1) return
        const length = Number(/content-length: (\d+)/i.exec(held)?.[1])
        if (held.length < head + 4 + length) return
        if (!held.startsWith('HTTP/1.1 200')) reject(new Error(held.slice(0, 200)))
        held = ''
        replies++
        if (performance.now() < untilMs) socket.write(request)
        else socket.destroy()
      })
      socket.on('error', reject)
      socket.on('close', () => resolve())
    })
  const now = (): number => (per === 'second' ? performance.now() / 1000 : secondsOf(process.pid as number))
  const from = now()
  await Promise.all(Array.from({ length: connections }, one))
  return replies / (now() - from)
}

/** Measures requests per second with wrk, while one record is written each second. */
async function wrk({ url, process: server }: Contestant, at: string, write: () => Promise<unknown>): Promise<number> {
  const words = ['-t1', `-c${connections}`, `-d${Math.ceil(roundMs / 1000)}s`, '-H', `Authorization: Bearer ${token}`]
  const writing = setInterval(() => void write().catch(() => server.kill()), 1000)
  try {
    const { stdout } = await promisify(execFile)('wrk', [...words, new URL(at, url).href])
    if (/Non-2xx/.test(stdout)) throw new Error(stdout)
    return Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1])
  } finally {
    clearInterval(writing)
  }
}

const fastifyProgram = `
  const { createHash, timingSafeEqual } = require('node:crypto')
  const fastify = require('fastify')()
  const digest = text => createHash('sha256').update(text).digest()
  const expected = digest(process.env.BENCH_TOKEN)
  const project = JSON.parse(process.env.BENCH_PROJECT)
  const projects = new Map([[project.id, project]])
  fastify.addHook('onRequest', async (request, reply) => {
    const given = /^bearer +(\\S+) *$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
    if (!timingSafeEqual(digest(given), expected)) return reply.code(401).send({ success: false })
  })
  fastify.get('/api/projects/:id', async request => projects.get(request.params.id))
  fastify.get('/api/projects', async () => [...projects.values()])
  fastify.put('/api/projects/:id', async request => {
    projects.set(request.params.id, { ...projects.get(request.params.id), ...request.body })
    return { success: true }
  })
  for (const each of JSON.parse(process.env.BENCH_PROJECTS)) projects.set(each.id, each)
  fastify.listen({ port: 0, host: '127.0.0.1' }).then(url => console.log(url))
`

const ours = await start([process.execPath, join(top, 'bin/svc.js'), 'serve', '--port', '0'], {
  SVC_HOME: join(stage, 'home'),
  ADMIN_TOKEN: token
})
/** Creates a record with the admin token. */
async function create<T>(path: string, fields: object): Promise<T> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const created = await fetch(new URL(path, ours.url), { method: 'POST', headers, body: JSON.stringify(fields) })
  return (await created.json()) as T
}

const { project } = await create<{ project: { id: string } }>('/api/projects', {
  name: 'Bench',
  deployPath: join(stage, 'site')
})
const path = `/api/projects/${project.id}`
for (let at = 1; at < projectCount; at++)
  await create('/api/projects', { name: `Bench ${at}`, deployPath: join(stage, `site-${at}`) })
const listed = await fetch(new URL('/api/projects', ours.url), { headers: { authorization: `Bearer ${token}` } })
const projects = await listed.text()
const named = { name: 'limited', role: 'viewer', projectIds: [project.id] }
const { token: limited } = await create<{ token: string }>('/api/tokens', named)
const { token: unlimited } = await create<{ token: string }>('/api/tokens', { name: 'unlimited', role: 'admin' })

const hasFastify = await rivals({ fastify: '5.6.2' })
const folder = fileURLToPath(new URL('../../bench-rivals/fastify@5.6.2/', import.meta.url))
const program = join(folder, 'bench-api.cjs')
if (hasFastify) writeFileSync(program, fastifyProgram)
const theirs = hasFastify
  ? await start([process.execPath, program], {
      BENCH_TOKEN: token,
      BENCH_PROJECT: JSON.stringify(project),
      BENCH_PROJECTS: projects
    })
  : null

try {
  for (const per of ['second', 'processor second'] as const) {
    await compare({
      name: 'GET /api/projects/:id with the token check, 32 connections',
      unit: `requests per ${per}`,
      rounds: 7,
      contestants: {
        'svc, token of a viewer of the project': () => load(ours, limited, per),
        'svc, named token of an admin': () => load(ours, unlimited, per),
        'svc, admin token': () => load(ours, token, per),
        fastify: theirs && (() => load(theirs, token, per))
      },
      goals: [
        { beside: 'svc, admin token', atLeast: 0.97 },
        { beside: 'fastify', atLeast: 1 }
      ]
    })
  }
  const change =
    ({ url }: Contestant) =>
    (): Promise<unknown> =>
      fetch(new URL(path, url), {
        method: 'PUT',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ description: `At ${Date.now()}` })
      })
  if (findProgram('wrk') === null) console.log('\nwrk: left out, not on this machine')
  else {
    for (const at of [path, '/api/projects']) {
      await compare({
        name: `${at === path ? 'GET /api/projects/:id' : at} of ${projectCount} projects by wrk, with one write a second`,
        unit: 'requests per second',
        contestants: {
          svc: () => wrk(ours, at, change(ours)),
          fastify: theirs && (() => wrk(theirs, at, change(theirs)))
        },
        goals: [{ beside: 'fastify', atLeast: 1 }]
      })
    }
  }
} finally {
  for (const { process } of theirs ? [ours, theirs] : [ours]) {
    process.kill('SIGTERM')
    await once(process, 'exit')
  }
  rmSync(stage, { recursive: true, force: true })
}
