/*
 * The node of a hub: an agent in a process of its own, whose data directory is `node/` in that of the hub. So the targets on the
 * machine of the hub stay where they are when another hub leads, and are deployed like those of every other machine.
 */

import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pause } from '../base/clock.js'
import { type Environment, nodeName } from '../base/config/home.js'
import { keepProgram, type KeptProgram } from '../core/proc/kept-program.js'
import { reasonOf, Refusal } from '../base/errors.js'
import { openStore } from '../core/store/durable-store.js'
import type { Reader, Row, Transaction, Value } from '../core/store/database.js'
import { insertHubDeployment } from '../core/store/tables/fleet.js'
import { unfinishedDeployments } from '../core/store/tables/deployments.js'

export interface OwnNodeNeeds {
  /** The data directory of the hub. */
  directory: string
  /** The URL of the hub. */
  url: string
  /** Path of certificates that the agent checks hubs with. */
  caFile: string | null
  environment: Environment
  /** Returns a one-time token for a new node. Rejects while nobody leads. */
  enroll(signal: AbortSignal): Promise<string>
  warn(sentence: string): void
}

const retryMs = 2000
const program = fileURLToPath(new URL('../../../bin/svc.js', import.meta.url))
/** What the agent must not get: secrets of the hub, and its own settings. */
const notPassed = /^(ADMIN_TOKEN|SVC_.*|NOTIFY_SOCKET)$/

/** Starts the agent of a hub, and enrolls it if it is new. */
export function startOwnNode({ directory, url, caFile, environment, enroll, warn }: OwnNodeNeeds) {
  const home = join(directory, nodeName)
  const stopping = new AbortController()
  let kept: KeptProgram | undefined

  async function tokenOf(): Promise<string | undefined> {
    let told = ''
    // The directory may be restored from its backup meanwhile.
    while (!existsSync(join(home, 'agent.json'))) {
      try {
        return await enroll(stopping.signal)
      } catch (error) {
        stopping.signal.throwIfAborted()
        const sentence = whyNot(error)
        if (sentence !== told) warn(sentence)
        told = sentence
        await pause(retryMs, stopping.signal)
      }
    }
    return undefined
  }

  function whyNot(error: unknown): string {
    if (!(error instanceof Refusal) || error.code !== 'name_taken')
      return `Cannot enroll the node of this hub yet: ${reasonOf(error)}`
    return `The cluster knows the node of this hub, but "${home}" does not have its key. Restore the backup of that directory. Without one, remove the node with "svc fleet forget": then a new one is enrolled, without the records of the earlier one`
  }

  async function start(): Promise<void> {
    await mkdir(home, { recursive: true, mode: 0o700 })
    const token = await tokenOf()
    const passed = Object.entries(environment).filter(([name]) => !notPassed.test(name))
    kept = keepProgram({
      file: process.execPath,
      // Its address is this machine's own, whatever its name.
      args: [program, 'agent', '--hub', url, '--allow-http', ...(caFile === null ? [] : ['--ca', caFile])],
      env: { ...Object.fromEntries(passed), SVC_HOME: home, ...(token !== undefined && { SVC_ENROLL_TOKEN: token }) },
      onEnd: (code, errors) => warn(`The agent of this hub ended (${code ?? 'not started'}): ${errors}`)
    })
  }

  const starting = start().catch((error: unknown) => {
    if (!stopping.signal.aborted) warn(`Cannot start the node of this hub: ${reasonOf(error)}`)
  })
  return {
    async stop(): Promise<void> {
      stopping.abort()
      await starting
      await kept?.stop()
    }
  }
}

/*
 * The database of the agent of a server that becomes a hub: the projects of the server with their variables and locks, and the
 * records of their deployments under the same ids. So undo, verify and exact rollbacks of the agent know the targets as the
 * server did. Tokens, sessions, webhooks and the audit log stay with the hub.
 */

/** Tables that the agent takes over, in the order of their references. Triggers fill the others. */
const takenTables = [
  'categories',
  'tags',
  'projects',
  'projectTags',
  'variables',
  'locks',
  'deployments',
  'scriptProcesses',
  'logSources'
] as const
/** Settings that concern the server that its users talk to. */
const settingsOfHub = /^(webhook|global_deploy_token|metrics_token|allowed_|trusted_|checkpoint_|token_)/
const rowsPerWrite = 500

/** Creates svc.db in `directory` from the database of the server. */
export async function createNodeDatabase(directory: string, from: Reader): Promise<void> {
  const store = await openStore({ directory })
  try {
    for (const table of takenTables) {
      const rows = from.all(`SELECT * FROM ${table}`)
      for (let at = 0; at < rows.length; at += rowsPerWrite) {
        await store.write(tx => rows.slice(at, at + rowsPerWrite).forEach(row => insertRow(tx, table, row)))
      }
    }
    const settings = from.all('SELECT key, value FROM settings').filter(({ key }) => !settingsOfHub.test(String(key)))
    await store.write(tx => settings.forEach(row => insertRow(tx, 'settings', row)))
    // The hub made every deployment so far, so none of them is drift.
    await store.write(tx => {
      for (const { id, projectId } of from.all('SELECT id, projectId FROM deployments')) {
        insertHubDeployment(tx, { id: String(id), projectId: String(projectId), deployId: String(id) })
      }
    })
  } finally {
    await store.close()
  }
}

/** Adds a row as it is in another database. Columns that triggers have already filled are replaced. */
export function insertRow(tx: Transaction, table: string, row: Row): void {
  const names = Object.keys(row)
  const values = names.map(name => row[name] as Value)
  tx.run(`INSERT OR REPLACE INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`, ...values)
}

/**
 * Refuses (`deployment_running`) while a deployment has not finished, or its undo journal is among the files of the
 * deployments: the target could have the files of either release. The server that began it must end it.
 */
export function refuseUnfinished(store: Reader, files: readonly string[]): void {
  const [row] = unfinishedDeployments(store)
  const journal = files.find(name => name.endsWith('.undo'))
  if (row === undefined && journal === undefined) return
  const id = row?.id ?? (journal as string).slice(0, -'.undo'.length)
  const sentence = `Deployment ${id} has not finished. Start the server, let it finish, stop the server, and try again`
  throw new Refusal('conflict', 'deployment_running', sentence)
}
