/*
 * A server with 100,000 deployments of 5,000 projects: how long each list and summary takes, at rest and right after a
 * write, how long each blocks the event loop, what a new project and a new deployment cost, and how long nobody is
 * answered while svc.db (257 and 600 MB) is replaced by a checkpoint or backed up. Figures beside goals;
 * `node dist/test/bench/scale.js lists` measures only the first part.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { Agent, get, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type DeploymentRow, stepNames } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import type { Transaction } from '../../lib/core/store/database.js'
import { insertAudit } from '../../lib/core/store/tables/audit.js'
import { insertDeployment } from '../../lib/core/store/tables/deployments.js'
import { insertLabel, insertLogSource, insertProject } from '../../lib/core/store/tables/projects.js'
import { aDeployment, aLabel, aProject } from '../core/store/stage.js'
import { isTiny, machine, median, sized } from '../support/bench.js'
import { startListening, type Listening } from '../support/listening.js'
import { bareEnvironment, svcPath } from '../support/svc.js'
import { zipOf } from '../support/zip.js'

const projects = sized(5000, 20)
const deployments = sized(100_000, 100)
const auditEntries = sized(50_000, 50)
const logSources = sized(1000, 5)
const labels = 40
const rounds = sized(7, 1)
const listGoalMs = 50
const createGoalMs = 20
const blockGoalMs = 50
const token = 'bench-admin-token-0123456789'

const turnGoalMs = 20
/** Measures the turns of the event loop in the server (support/loop-turns.ts). */
const turnsModule = new URL('../support/loop-turns.js', import.meta.url).href
const hasProc = process.platform === 'linux'

const stage = mkdtempSync(join(tmpdir(), 'svc-bench-scale-'))
const turnsFile = join(stage, 'turns')
const agent = new Agent({ keepAlive: true })
console.log(machine())
try {
  await atSize({ name: 'plain', deploymentBytes: 0, isListed: true })
  if (process.argv[2] !== 'lists') await atSize({ name: 'large', deploymentBytes: 3600, isListed: false })
} finally {
  agent.destroy()
  rmSync(stage, { recursive: true, force: true })
}

async function atSize({
  name,
  deploymentBytes,
  isListed
}: {
  name: string
  deploymentBytes: number
  isListed: boolean
}): Promise<void> {
  const home = join(stage, name)
  mkdirSync(home)
  await fill(home, deploymentBytes)
  const megabytes = Math.round(statSync(join(home, 'svc.db')).size / 1e6)
  const env = bareEnvironment(stage, { SVC_HOME: home, ADMIN_TOKEN: token, LOOP_TURNS: turnsFile })
  const words = [...(hasProc ? ['--import', turnsModule] : []), svcPath, 'serve', '--port', '0']
  const server = await startListening(words, { cwd: stage, env, path: 'api/health' })
  try {
    console.log(
      `\n${projects} projects, ${deployments} deployments, svc.db ${megabytes} MB; answers after ${Math.round(server.tookMs)} ms`
    )
    // The start looks at the pages of a large file in a thread.
    await ask(server, 'GET', 'api/overview')
    await sleep(sized(10_000, 100))
    if (isListed) await measureRoutes(server)
    // A tiny one shows each part once: a checkpoint comes only after half a minute without a write.
    const isMeasured = process.argv[2] !== 'lists' && !(isTiny && isListed)
    if (isMeasured) await measureBlocks(server, home, megabytes)
  } finally {
    await server.stop()
    rmSync(home, { recursive: true, force: true })
  }
}

function idOf(prefix: string, n: number): string {
  return `${prefix}_${n.toString(36).padStart(16, '0')}`
}

function timeOf(n: number): string {
  return new Date(Date.now() - (deployments - n) * 60_000).toISOString()
}

async function fill(home: string, deploymentBytes: number): Promise<void> {
  const store = await openStore({ directory: home, foldBytes: Infinity })
  const many = async (count: number, insert: (tx: Transaction, n: number) => void) => {
    for (let from = 0; from < count; from += 5000) {
      await store.write(tx => {
        for (let n = from; n < Math.min(count, from + 5000); n++) insert(tx, n)
      })
    }
  }
  await many(labels, (tx, n) => {
    insertLabel(tx, 'tag', aLabel({ id: idOf('tag', n), name: `Tag ${n}` }))
    insertLabel(tx, 'category', aLabel({ id: idOf('cat', n), name: `Category ${n}` }))
  })
  await many(projects, (tx, n) => {
    const tagIds = [idOf('tag', n % labels), idOf('tag', (n + 1) % labels)]
    const fields = {
      id: idOf('proj', n),
      name: `Site ${n}`,
      deployPath: join(stage, 'targets', `site-${n}`),
      token: `token-${n}`
    }
    insertProject(
      tx,
      aProject({ ...fields, tagIds, categoryId: idOf('cat', n % labels), pinned: n % 500 === 0, createdAt: timeOf(n) })
    )
  })
  await many(deployments, (tx, n) => insertDeployment(tx, rowOf(n, deploymentBytes)))
  await many(auditEntries, (tx, n) => {
    const projectId = idOf('proj', n % projects)
    const entry = {
      id: idOf('aud', n),
      at: timeOf(n),
      action: 'project.update',
      actor: 'admin',
      tokenId: null,
      tokenName: null,
      role: null,
      sessionId: null,
      ip: '10.0.0.1',
      claimedIp: null,
      traceId: null,
      failures: null,
      seq: null
    }
    insertAudit(tx, { ...entry, projectId, target: projectId, detail: 'name', ok: true })
  })
  await many(logSources, (tx, n) => {
    const at = timeOf(n)
    const source = {
      id: idOf('log', n),
      projectId: idOf('proj', n),
      label: `Log ${n}`,
      filePath: `/var/log/site-${n}.log`
    }
    insertLogSource(tx, { ...source, kind: 'plain', sortOrder: 0, createdAt: at, updatedAt: at })
  })
  await store.close()
}

/** Returns the steps of a finished deployment with their times. */
function rowOf(n: number, bytes: number): DeploymentRow {
  const startTime = timeOf(n)
  const steps = stepNames.map(name => ({ name, status: 'success' as const, startedAt: startTime, endedAt: startTime }))
  const fields = {
    id: idOf('dep', n),
    projectId: idOf('proj', n % projects),
    projectName: `Site ${n % projects}`,
    startTime,
    endTime: startTime
  }
  const message = `Change ${n}${'.'.repeat(bytes)}`
  return aDeployment({
    ...fields,
    duration: '1.20s',
    steps,
    message,
    hasArtifact: false,
    status: n % 9 === 0 ? 'failed' : 'success'
  })
}

interface Answer {
  status: number
  /** Time to the head, and to the last byte. */
  headMs: number
  ms: number
  body: string
}

interface Sent {
  type: string
  body: Uint8Array
  token?: string
}

/** Sends one request on a connection that stays open. */
function ask(server: Listening, method: string, path: string, sent?: Sent): Promise<Answer> {
  const begun = performance.now()
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${sent?.token ?? token}`,
      ...(sent && { 'content-type': sent.type, 'content-length': sent.body.length })
    }
    const asking = request(server.url + path, { method, agent, headers }, response => {
      const headMs = performance.now() - begun
      let body = ''
      response.setEncoding('utf8').on('data', (text: string) => (body += text))
      response.once('end', () =>
        resolve({ status: response.statusCode as number, headMs, ms: performance.now() - begun, body })
      )
    })
    asking.once('error', reject).end(sent?.body)
  })
}

function json(value: unknown): Sent {
  return { type: 'application/json', body: Buffer.from(JSON.stringify(value)) }
}

/** Returns the processor time of the event loop's thread, which is more exact than wall time on a shared machine. */
function computedMs(server: Listening): number {
  try {
    return Number(readFileSync(`/proc/${server.pid}/task/${server.pid}/schedstat`, 'latin1').split(' ')[0]) / 1e6
  } catch {
    return NaN // there is no /proc
  }
}

/** Returns the processor time of the longest turn of the event loop since the last call. */
async function longestTurnMs(server: Listening): Promise<number> {
  if (!hasProc) return NaN
  rmSync(turnsFile, { force: true })
  process.kill(server.pid, 'SIGUSR2')
  while (!existsSync(turnsFile)) await sleep(1)
  return Number(readFileSync(turnsFile, 'latin1'))
}

/** Alternates: a write, so that caches must be refreshed, then two requests to the route. */
async function measureRoutes(server: Listening): Promise<void> {
  const project = idOf('proj', 7)
  const paths = [
    'projects',
    `projects?tagIds=${idOf('tag', 3)}`,
    `projects/${project}`,
    'overview',
    'overview?days=366',
    'logs',
    'logs?limit=200',
    `logs?projectId=${project}`,
    'logs?status=failed&limit=100',
    `logs?projectId=${project}&status=failed`,
    'audit',
    'audit?limit=200',
    'audit?action=auth.login',
    `audit?projectId=${project}`,
    'stats/heatmap',
    'stats/heatmap?days=366',
    'stats/success-rate',
    'stats/success-rate?days=366',
    'stats/durations',
    `stats/durations?projectId=${project}`,
    'search?q=site',
    'search?q=4711',
    'search?q=nothing-like-it',
    'storage',
    'categories',
    'tags',
    'settings/status',
    'log-sources',
    'health/detail',
    'migration/verify',
    `projects/${project}/overview`,
    `projects/${project}/recent-scripts`,
    `projects/${project}/log-sources`
  ]
  console.log(
    row('GET', 'at rest', 'worst', 'after a write', 'worst', 'computing', 'KB', 'goal', 'longest turn', 'goal')
  )
  for (const path of paths) {
    const rested: number[] = []
    const changed: number[] = []
    const computed: number[] = []
    const turns: number[] = []
    let bytes = 0
    for (let round = -1; round < rounds; round++) {
      await ask(server, 'PUT', `api/projects/${project}`, json({ description: `Round ${round}` }))
      await longestTurnMs(server)
      const before = computedMs(server)
      const first = await ask(server, 'GET', `api/${path}`)
      const computing = computedMs(server) - before
      const turn = await longestTurnMs(server)
      const second = await ask(server, 'GET', `api/${path}`)
      if (first.status !== 200) throw new Error(`${path}: ${first.status} ${first.body.slice(0, 300)}`)
      bytes = first.body.length
      if (round < 0) continue
      changed.push(first.ms)
      computed.push(computing)
      rested.push(second.ms)
      turns.push(turn)
    }
    const worst = Math.max(median(rested), median(changed))
    console.log(
      row(
        path,
        ms(median(rested)),
        ms(Math.max(...rested)),
        ms(median(changed)),
        ms(Math.max(...changed)),
        ms(median(computed)),
        String(Math.round(bytes / 1000)),
        goal(worst, listGoalMs),
        ms(median(turns)),
        goal(median(turns), turnGoalMs)
      )
    )
  }

  const created: number[] = []
  const computed: number[] = []
  const updated: number[] = []
  for (let round = -1; round < rounds * 2; round++) {
    const fields = { name: `New ${round}`, deployPath: join(stage, 'targets', `new-${round}`) }
    const before = computedMs(server)
    const answer = await ask(server, 'POST', 'api/projects', json(fields))
    const computing = computedMs(server) - before
    if (answer.status !== 200) throw new Error(`POST: ${answer.status} ${answer.body}`)
    const { id } = (JSON.parse(answer.body) as { project: Project }).project
    const moved = await ask(
      server,
      'PUT',
      `api/projects/${id}`,
      json({ deployPath: join(stage, 'targets', `moved-${round}`) })
    )
    if (round < 0) continue
    created.push(answer.ms)
    computed.push(computing)
    updated.push(moved.ms)
  }
  console.log(
    row(
      'POST /api/projects',
      ms(median(created)),
      ms(Math.max(...created)),
      '',
      '',
      ms(median(computed)),
      '',
      goal(median(created), createGoalMs)
    )
  )
  console.log(
    row(
      'PUT /api/projects/:id, deployPath',
      ms(median(updated)),
      ms(Math.max(...updated)),
      '',
      '',
      '',
      '',
      goal(median(updated), createGoalMs)
    )
  )

  const admitted: number[] = []
  const file = Buffer.from(await zipOf({ 'index.html': 'Hello' }))
  const boundary = 'bench-boundary'
  for (let round = -1; round < rounds * 2; round++) {
    const at = (100 + round) % projects
    const part = (head: string) => `--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n`
    const parts = [
      part('name="projectId"'),
      `${idOf('proj', at)}\r\n`,
      part('name="file"; filename="a.zip"'),
      file,
      `\r\n--${boundary}--\r\n`
    ]
    const body = Buffer.concat(parts.map(piece => Buffer.from(piece as string)))
    const sent = { type: `multipart/form-data; boundary=${boundary}`, body, token: `token-${at}` }
    const { status, headMs, body: text } = await ask(server, 'POST', 'api/deploy/upload', sent)
    if (status !== 200) throw new Error(`upload: ${status} ${text}`)
    if (round >= 0) admitted.push(headMs)
  }
  console.log(
    row(
      'a deployment until it is admitted',
      ms(median(admitted)),
      ms(Math.max(...admitted)),
      '',
      '',
      '',
      '',
      goal(median(admitted), listGoalMs)
    )
  )
}

/** Returns the longest time without an answer during some work, measured from outside. */
async function measureBlocks(server: Listening, home: string, megabytes: number): Promise<void> {
  console.log(row('the longest wait for an answer during', 'at rest', 'worst', '', '', '', '', 'goal'))
  const inode = () => statSync(join(home, 'svc.db')).ino
  const rest = await pings(server, () => sleep(sized(5000, 100)))
  const report = (what: string, worstMs: number) =>
    console.log(row(what, ms(rest), ms(worstMs), '', '', '', '', goal(worstMs, blockGoalMs)))

  await ask(server, 'PUT', `api/projects/${idOf('proj', 7)}`, json({ description: 'before a checkpoint' }))
  const before = inode()
  report(
    `a checkpoint of ${megabytes} MB`,
    await pings(server, async () => {
      while (inode() === before) await sleep(50)
      await sleep(500)
    })
  )

  let writeMs = 0
  await ask(server, 'PUT', `api/projects/${idOf('proj', 7)}`, json({ description: 'before a checkpoint' }))
  const again = inode()
  report(
    `a checkpoint of ${megabytes} MB, with writes during it`,
    await pings(server, async () => {
      // That of a small database is there too shortly to be seen.
      while (!isTiny && statSync(join(home, 'svc.db.tmp'), { throwIfNoEntry: false }) === undefined) await sleep(5)
      for (let n = 0; inode() === again; n++) {
        // A small database is replaced when nobody writes.
        if (isTiny && n >= 5) {
          await sleep(50)
          continue
        }
        const id = idOf('proj', n % projects)
        const written = await ask(server, 'PUT', `api/projects/${id}`, json({ description: 'during a checkpoint' }))
        writeMs = Math.max(writeMs, written.ms)
      }
    })
  )
  console.log(row('  the longest write meanwhile', '', ms(writeMs)))

  report(`a backup of ${megabytes} MB`, await pings(server, () => backUp(home)))
}

/** Reads the whole body and drops it. */
function backUp(home: string): Promise<void> {
  return new Promise((resolve, reject) => {
    get({ socketPath: join(home, 'svc.sock'), path: '/api/backup', headers: { host: 'localhost' } }, response => {
      if (response.statusCode !== 200) reject(new Error(`backup: ${response.statusCode}`))
      response.resume().once('end', resolve)
    }).once('error', reject)
  })
}

async function pings(server: Listening, during: () => Promise<unknown>): Promise<number> {
  let isOver = false
  const done = during().finally(() => (isOver = true))
  let worst = 0
  while (!isOver) {
    worst = Math.max(worst, (await ask(server, 'GET', 'api/health')).ms)
    await sleep(sized(1, 500))
  }
  await done
  return worst
}

function row(first: string, ...cells: string[]): string {
  return `  ${first.padEnd(52)}${cells.map(cell => cell.padStart(14)).join('')}`
}

function ms(value: number): string {
  return `${value < 100 ? value.toFixed(1) : Math.round(value)} ms`
}

function goal(value: number, atMost: number): string {
  return `${value <= atMost ? 'ok' : 'MISSED'} (${atMost})`
}
