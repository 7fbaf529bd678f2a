import { execFileSync } from 'node:child_process'
import {
  closeSync,
  copyFileSync,
  fdatasyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  writeSync
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type DeploymentRow, stepNames } from '../../lib/model/deployment.js'
import type { Transaction } from '../../lib/core/store/database.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import {
  deleteDeploymentsOf,
  insertDeployment,
  listDeployments,
  countDeployments
} from '../../lib/core/store/tables/deployments.js'
import { insertProject, listProjects } from '../../lib/core/store/tables/projects.js'
import { compare, machine, sized } from '../support/bench.js'
import { rivals } from '../support/rivals.js'
import { aDeployment, aProject } from '../core/store/stage.js'

/**
 * Durable commits and opening, with 100,000 deployments present, against better-sqlite3 on the same rows, tables and
 * indexes (WAL, synchronous = FULL: every commit is synced, as here).
 */
interface BetterSqlite {
  exec(sql: string): void
  pragma(text: string): unknown
  prepare(sql: string): { run(...values: unknown[]): unknown }
  close(): void
}
type OpenBetterSqlite = new (path: string) => BetterSqlite

const rowsPresent = sized(100_000, 200)
const projects = sized(50, 5)
const singleCommits = sized(300, 3)
const writers = sized(32, 4)
const commitsEach = sized(100, 2)
const opening = process.argv[2]

if (opening !== undefined) await openOnce(opening)
else await bench()

/** Measures in a separate process: from nothing loaded to the first row read. */
async function openOnce(directory: string): Promise<void> {
  const store = await openStore({ directory })
  listDeployments(store, { limit: 1 })
  console.log(performance.now())
  process.exit()
}

async function bench(): Promise<void> {
  const top = mkdtempSync(fileURLToPath(new URL('../../bench-store-', import.meta.url)))
  try {
    console.log(machine())
    const directory = join(top, 'ours')
    mkdirSync(directory)
    await fill(directory)
    await compareCommits(top, directory)
    await compareOpening(directory)
    await compareQueries(directory)
  } finally {
    rmSync(top, { recursive: true, force: true })
  }
}

async function fill(directory: string): Promise<void> {
  const store = await openStore({ directory })
  await store.write(tx => {
    for (let n = 0; n < projects; n++) insertProject(tx, aProject({ id: `proj_${n}` }))
  })
  const batch = sized(5000, 100)
  for (let from = 0; from < rowsPresent; from += batch) {
    await store.write(tx => {
      for (let n = from; n < from + batch; n++) insertDeployment(tx, aRow(n))
    })
  }
  await store.close()
  console.log(`${rowsPresent} deployments, svc.db ${Math.round(statSync(join(directory, 'svc.db')).size / 1e6)} MB`)
}

/** Returns the record of a finished deployment with its steps. */
function aRow(n: number): DeploymentRow {
  const startTime = new Date(1.7e12 + n * 60_000).toISOString()
  const steps = stepNames.map(name => ({ name, status: 'success' as const, startedAt: startTime, endedAt: startTime }))
  const id = `dep_${n.toString(36).padStart(16, '0')}`
  return aDeployment({ id, projectId: `proj_${n % projects}`, startTime, endTime: startTime, duration: '1.20s', steps })
}

async function compareCommits(top: string, directory: string): Promise<void> {
  const store = await openStore({ directory })
  let next = rowsPresent
  const ours = () => store.write(tx => insertDeployment(tx, aRow(next++)))
  const rival = await openRival(top, directory)
  const sync = bareSync(join(top, 'synced'))

  await compare({
    name: `one writer: a commit of a deployment row, ${rowsPresent} rows present`,
    unit: 'ms a commit',
    contestants: {
      ours: () => msEach(singleCommits, ours),
      'a bare sync': () => msEach(singleCommits, sync.once),
      'better-sqlite3': rival && (() => msEach(singleCommits, rival.commit))
    },
    goals: [{ beside: 'better-sqlite3', atMost: 1.2 }]
  })
  await compare({
    name: `${writers} writers at once`,
    unit: 'commits a second',
    contestants: {
      ours: async () => 1000 / (await msEach(writers * commitsEach, ours, writers)),
      'a bare sync': async () => 1000 / (await msEach(writers * commitsEach, sync.once)),
      'better-sqlite3': rival && (async () => 1000 / (await msEach(writers * commitsEach, rival.commit)))
    },
    goals: [{ beside: 'better-sqlite3', atLeast: 3 }]
  })
  rival?.close()
  sync.close()
  await store.write(tx => deleteDeploymentsOf(tx, 'none'))
  await store.close()
}

/** A line added to a file and synced: what the disk takes for a commit, whatever the database. */
function bareSync(path: string): { once: () => void; close: () => void } {
  const file = openSync(path, 'a')
  const line = Buffer.alloc(500, 'x')
  return {
    once: () => (writeSync(file, line), fdatasyncSync(file)),
    close: () => closeSync(file)
  }
}

/** Returns the mean time of `many` calls, with this many at once. */
async function msEach(many: number, call: () => unknown, atOnce = 1): Promise<number> {
  const begun = performance.now()
  const worker = async () => {
    for (let n = 0; n < many / atOnce; n++) await call()
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return (performance.now() - begun) / many
}

async function openRival(top: string, directory: string): Promise<{ commit: () => void; close: () => void } | null> {
  const load = await rivals({ 'better-sqlite3': '12.4.1' })
  if (load === null) return null
  const Database = await load<OpenBetterSqlite>('better-sqlite3')
  const path = join(top, 'rival.db')
  copyFileSync(join(directory, 'svc.db'), path)
  const database = new Database(path)
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  let next = rowsPresent
  const prepared = new Map<string, ReturnType<typeof database.prepare>>()
  const [begin, end] = [database.prepare('BEGIN'), database.prepare('COMMIT')]
  // The same statements and the same values as svc's own, so that only the databases differ.
  const transaction = {
    run(sql: string, ...values: unknown[]) {
      const statement = prepared.get(sql) ?? database.prepare(sql)
      prepared.set(sql, statement)
      statement.run(...values)
    }
  } as unknown as Transaction
  return {
    commit() {
      begin.run()
      insertDeployment(transaction, aRow(next++))
      end.run()
    },
    close: () => database.close()
  }
}

async function compareOpening(directory: string): Promise<void> {
  const open = () => {
    const program = fileURLToPath(import.meta.url)
    return Number(execFileSync(process.execPath, [program, directory]).toString())
  }
  await compare({
    name: `opening ${rowsPresent} rows in a new process, from its start to the first row read`,
    unit: 'ms',
    contestants: {
      ours: open,
      'node -e 0': () => Number(execFileSync(process.execPath, ['-p', 'performance.now()']).toString())
    },
    target: 'less than 150 ms'
  })
}

async function compareQueries(directory: string): Promise<void> {
  const store = await openStore({ directory })
  const ms = (call: () => unknown) => () => msEach(20, call)
  await compare({
    name: `reading, ${rowsPresent} rows present`,
    unit: 'ms',
    contestants: {
      'the newest 100 deployments': ms(() => listDeployments(store, { limit: 100 })),
      'the newest 100 of a project': ms(() => listDeployments(store, { limit: 100, projectId: 'proj_7' })),
      'counting all': ms(() => countDeployments(store)),
      'counting a status': ms(() => countDeployments(store, { status: 'success' })),
      [`all ${projects} projects with their status`]: ms(() => listProjects(store))
    }
  })
  const checkpoint = async () => {
    await store.write(tx => tx.run('UPDATE projects SET name = ? WHERE id = ?', 'x', 'proj_1'))
    const begun = performance.now()
    await store.checkpoint()
    return performance.now() - begun
  }
  await compare({ name: 'a checkpoint', unit: 'ms', contestants: { ours: checkpoint } })
  await store.close()
}
