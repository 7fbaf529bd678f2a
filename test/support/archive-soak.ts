import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Project } from '../../lib/model/project.js'
import { compareLists, openFiles } from './descriptors.js'
import { hostileArchive, hostileKinds, hostileLimitMb, type HostileArchive } from './hostile-archives.js'
import { createRandom } from './random.js'
import { startServeProcess, type ServeProcess } from './serve-process.js'
import { zipOf } from './zip.js'

export interface ArchiveSoak {
  /** Number of hostile uploads, if it is limited. */
  archives?: number | undefined
  /** Duration of the load in ms, if it is limited. */
  seconds?: number
  seed: number
  /** Directory for the data directory and the targets. */
  directory: string
  /** Whether to wait until idle threads have ended, so that their descriptors can be compared too. */
  isThorough: boolean
}

export interface SoakFigures {
  /** Number of hostile uploads. */
  sent: number
  /** Hostile uploads by their result: `failed`, `refused <status>`, `aborted`, or `success`, which is a fault. */
  outcomes: Record<string, number>
  honestRounds: number
  /** Failures of honest users. Must be empty. */
  honestErrors: string[]
  /** Open descriptors of the server before and after. */
  filesBefore: number
  filesAfter: number
  /** Differences between the two. Must be empty. */
  difference: string[]
  /** Warnings of Node and lines about bad descriptors. Must be empty. */
  warnings: string[]
}

const honestProjects = 5
const hostileProjects = 8
/** Idle threads end after this time without a change; connections are closed much earlier. */
const idleMs = 13_000
const briefMs = 1_000
/** Time limit for descriptors to be closed. */
const settleMs = 60_000
const pollMs = 100

/** Sends hostile archives to a real server while five projects deploy and read, and counts the effects. */
export async function soakArchives(t: Pick<Test, 'teardown'>, soak: ArchiveSoak): Promise<SoakFigures> {
  const random = createRandom(soak.seed)
  const server = await startServeProcess(t, soak.directory, [], {}, { nodeWords: ['--trace-warnings'] })
  await sendJson(server, {
    method: 'PUT',
    path: '/api/settings',
    value: { max_extracted_size: String(hostileLimitMb) }
  })
  const project = async (name: string): Promise<Project> => {
    const value = { name, deployPath: join(soak.directory, 'targets', name) }
    return ((await sendJson(server, { method: 'POST', path: '/api/projects', value })) as { project: Project }).project
  }
  const honest = await Promise.all(Array.from({ length: honestProjects }, (_, index) => project(`honest-${index}`)))
  const hostile = await Promise.all(Array.from({ length: hostileProjects }, (_, index) => project(`hostile-${index}`)))
  const figures: SoakFigures = {
    sent: 0,
    outcomes: {},
    honestRounds: 0,
    honestErrors: [],
    filesBefore: 0,
    filesAfter: 0,
    difference: [],
    warnings: []
  }

  // One of each first: what a server opens once and keeps is no leak.
  for (const one of honest) await honestRound(server, one, 0)
  const held = (): string[] =>
    openFiles(server.pid)
      .filter(name => soak.isThorough || !/^(anon_inode|pipe):/.test(name))
      .map(nameless)
  const before = await unchanged(held, soak.isThorough ? idleMs : briefMs)
  figures.filesBefore = before.length

  const { archives = Infinity, seconds = Infinity } = soak
  const deadlineMs = performance.now() + seconds * 1000
  let isOver = false
  const attack = async (target: Project): Promise<void> => {
    while (figures.sent < archives && performance.now() < deadlineMs) {
      const kind = hostileKinds[figures.sent++ % hostileKinds.length] as (typeof hostileKinds)[number]
      const outcome = await sendHostile(server, target, hostileArchive(kind, random))
      figures.outcomes[outcome] = (figures.outcomes[outcome] ?? 0) + 1
      if (outcome === 'success') figures.honestErrors.push(`an archive of the kind "${kind}" was deployed`)
    }
  }
  const live = async (own: Project): Promise<void> => {
    for (let round = 1; !isOver || round < 3; round++) {
      await honestRound(server, own, round).then(
        () => figures.honestRounds++,
        error => figures.honestErrors.push(`${own.name}: ${String(error)}`)
      )
    }
  }
  const living = honest.map(live)
  await Promise.all(hostile.map(attack)).finally(() => {
    isOver = true
  })
  await Promise.all(living)

  const after = await settled(held, before)
  figures.filesAfter = after.length
  figures.difference = compareLists(before, after)
  figures.warnings = `${server.said()}\n${server.saidOnStderr()}`
    .split('\n')
    .filter(line => /warning|EBADF|unexpected|Error:/i.test(line))
  const code = await server.stop()
  if (code !== 0) figures.warnings.push(`the server ended with ${code}`)
  return figures
}

/** Returns what is wrong with the figures; empty if nothing is. */
export function violations({ honestErrors, difference, warnings }: SoakFigures): string[] {
  return [...honestErrors, ...difference.map(one => `open: ${one}`), ...warnings]
}

/** Deploys, checks the target, and reads the files back over HTTP. */
async function honestRound(server: ServeProcess, project: Project, round: number): Promise<void> {
  const mark = `${project.name} ${round}`
  const large = Buffer.alloc(700 * 1024 + round, `${mark}\n`)
  const upload = await uploadTo(server, project, await zipOf({ 'mark.txt': mark, 'large.txt': large }), {})
  const last = upload.body.toString().trim().split('\n').at(-1) ?? ''
  if (upload.status !== 200 || !last.includes('"success"')) throw new Error(`deploying: ${upload.status} ${last}`)
  if (readFileSync(join(project.deployPath, 'mark.txt'), 'utf8') !== mark) throw new Error('the target has other files')
  const download = await send(server, { path: `/api/projects/${project.id}/download?path=large.txt` })
  if (download.status !== 200 || sha256(download.body) !== sha256(large))
    throw new Error(`download: ${download.status}, ${download.body.length} bytes`)
  const record = await send(server, { path: `/api/logs/${upload.deployId}` })
  if (record.status !== 200 || !record.body.toString().includes('"success"'))
    throw new Error(`record: ${record.status} ${record.body.toString()}`)
  const output = await send(server, { path: `/api/logs/${upload.deployId}/output` })
  if (output.status !== 200) throw new Error(`output: ${output.status}`)
}

async function sendHostile(server: ServeProcess, project: Project, archive: HostileArchive): Promise<string> {
  const onBegin = async (deployId: string): Promise<void> => {
    if (archive.cancelAfterMs === undefined) return
    await sleep(archive.cancelAfterMs)
    await send(server, { method: 'POST', path: `/api/deployments/${deployId}/cancel` })
  }
  try {
    const { status, body } = await uploadTo(server, project, archive.bytes, {
      onBegin,
      abortAfterBytes: archive.abortAfterBytes
    })
    if (status !== 200) return `refused ${status}`
    return body.toString().trim().split('\n').at(-1)?.includes('"success"') ? 'success' : 'failed'
  } catch (error) {
    if (archive.abortAfterBytes !== undefined) return 'aborted'
    throw error
  }
}

interface Uploading {
  onBegin?: (deployId: string) => Promise<void>
  abortAfterBytes?: number | undefined
}

function uploadTo(server: ServeProcess, project: Project, zip: Buffer, uploading: Uploading): Promise<Reply> {
  const boundary = 'archive-soak'
  const body = Buffer.concat([
    Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="projectId"\r\n\r\n${project.id}\r\n`),
    Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.zip"\r\n\r\n`),
    zip,
    Buffer.from(`\r\n--${boundary}--\r\n`)
  ])
  const headers = {
    authorization: `Bearer ${project.token}`,
    'content-type': `multipart/form-data; boundary=${boundary}`
  }
  return send(server, { method: 'POST', path: '/api/deploy/upload', headers, body, ...uploading })
}

interface Sending extends Uploading {
  method?: string
  path: string
  headers?: Record<string, string>
  body?: Buffer | string
}

interface Reply {
  status: number
  deployId: string
  body: Buffer
}

/** Sends one request on its own connection, with the admin token by default. */
function send(
  server: ServeProcess,
  { method = 'GET', path, headers = {}, body, onBegin, abortAfterBytes }: Sending
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const authorization = `Bearer ${server.adminToken}`
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const sending = request(
      server.url + path,
      { method, agent: false, headers: { authorization, ...length, ...headers } },
      response => {
        const deployId = String(response.headers['x-svc-deploy-id'])
        const begun = response.statusCode === 200 ? onBegin?.(deployId) : undefined
        begun?.catch(reject)
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', reject)
        response.on('end', () =>
          resolve({ status: response.statusCode as number, deployId, body: Buffer.concat(chunks) })
        )
      }
    )
    sending.on('error', reject)
    if (abortAfterBytes === undefined) return void sending.end(body)
    sending.write(Buffer.from(body ?? '').subarray(0, abortAfterBytes), () => sending.destroy(new Error('aborted')))
  })
}

async function sendJson(
  server: ServeProcess,
  { method, path, value }: { method: string; path: string; value: object }
): Promise<unknown> {
  const reply = await send(server, {
    method,
    path,
    body: JSON.stringify(value),
    headers: { 'content-type': 'application/json' }
  })
  if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${reply.body.toString()}`)
  return JSON.parse(reply.body.toString())
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** Replaces the numbers of sockets and pipes, which differ each time. */
function nameless(name: string): string {
  return name.replace(/^(socket|pipe):\[\d+\]$/, '$1')
}

/** Returns the open descriptors once they have not changed for this time. */
async function unchanged(held: () => string[], forMs: number): Promise<string[]> {
  let list = held()
  for (let waited = 0; waited < forMs; waited += pollMs) {
    await sleep(pollMs)
    const now = held()
    if (compareLists(list, now).length > 0) waited = 0
    list = now
  }
  return list
}

/** Returns the open descriptors when they are as wanted, or after the time limit. */
async function settled(held: () => string[], wanted: string[]): Promise<string[]> {
  let list = held()
  for (let waited = 0; compareLists(wanted, list).length > 0 && waited < settleMs; waited += pollMs) {
    await sleep(pollMs)
    list = held()
  }
  return list
}
