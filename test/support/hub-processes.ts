import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import * as http from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { EtcdOptions } from '../../lib/cluster/etcd/connection.js'
import type { HubRole, ReplicatedStoreOptions } from '../../lib/cluster/replicated-store.js'
import { bare } from './bare.js'
import { freePort } from './free-port.js'
import { ownHub } from './hub-keys.js'
import { until } from './until.js'

/*
 * Hubs as processes of their own (hub-process.ts), to be killed, stopped, and started again on their data.
 */

/** What a hub process is started with. */
export type HubProcessOptions = Pick<ReplicatedStoreOptions, 'directory' | 'etcd' | 'cluster' | 'hub' | 'limits'> & {
  /** The directory of the compiled program. */
  lib: string
  clusterKey: string
  begin: boolean
}

/** An answer of a hub process. */
export interface HubAnswer {
  status: number
  body: Record<string, unknown> & { code?: string; seen?: string | null; sequence?: number }
}

/** A hub as a process. */
export interface HubProcess {
  readonly name: string
  readonly url: string
  readonly isRunning: boolean
  /** What it printed about its waiting. */
  readonly said: string[]
  /** Starts it; resolves when it is open. `begins`: it begins the log with what it has. */
  start(lib?: string, begins?: boolean): Promise<void>
  kill(): Promise<void>
  /** Ends it as a service manager does. */
  stop(): Promise<void>
  signal(name: NodeJS.Signals): void
  /** Rejects if the hub does not answer. */
  ask(path: string, query?: Record<string, string>): Promise<HubAnswer>
}

/** Hubs of one cluster. */
export interface HubProcesses {
  hubs: HubProcess[]
  /** Waits until a hub leads, and returns it. */
  leader(): Promise<HubProcess>
  close(): Promise<void>
}

export const currentLib = fileURLToPath(new URL('../../lib/', import.meta.url))
const program = fileURLToPath(new URL('./hub-process.js', import.meta.url))
const askMs = 15_000

interface Wishes {
  etcd: EtcdOptions
  directory: string
  size: number
  limits?: HubProcessOptions['limits']
}

/** Starts hubs, the first of which begins the log. */
export async function startHubs({ etcd, directory, size, limits = {} }: Wishes): Promise<HubProcesses> {
  const shared = { etcd, cluster: 'main', clusterKey: randomBytes(32).toString('base64'), limits }
  const hubs: HubProcess[] = []
  for (let at = 1; at <= size; at++) {
    const name = `h${at}`
    const hub = ownHub({ name, url: `http://127.0.0.1:${await freePort()}` })
    mkdirSync(join(directory, name), { recursive: true })
    const process = hubProcess({ ...shared, lib: currentLib, directory: join(directory, name), hub, begin: at === 1 })
    hubs.push(process)
    await process.start()
  }
  return {
    hubs,
    leader: () =>
      until(
        async () => {
          for (const hub of hubs.filter(({ isRunning }) => isRunning)) {
            const role = await hub.ask('/role').catch(() => null)
            if ((role?.body as HubRole | undefined)?.kind === 'leader') return hub
          }
          return null
        },
        { what: 'a leader among the hubs' }
      ),
    close: async () => void (await Promise.all(hubs.map(hub => hub.kill())))
  }
}

function hubProcess(options: HubProcessOptions): HubProcess {
  const agent = new http.Agent({ keepAlive: true })
  const { hub } = options
  const said: string[] = []
  let child: ChildProcess | null = null
  let { begin } = options

  async function start(lib = options.lib, begins = begin): Promise<void> {
    const words = [program, JSON.stringify({ ...options, lib, begin: begins })]
    const current = spawn(...bare(process.execPath, words), { stdio: ['ignore', 'pipe', 'inherit'] })
    child = current
    current.once('exit', () => {
      if (child === current) child = null
    })
    const lines = createInterface(current.stdout as NodeJS.ReadableStream)
    await new Promise<void>((resolve, reject) => {
      lines.on('line', line => (line === 'open' ? resolve() : said.push(line)))
      current.once('exit', (code, signal) => reject(new Error(`${hub.name} ended with ${code ?? signal}`)))
    })
    begin = false
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    if (child === null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }

  return {
    ...hub,
    said,
    get isRunning() {
      return child !== null
    },
    start,
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
    signal: name => void child?.kill(name),
    ask(path, query = {}) {
      return new Promise((resolve, reject) => {
        const url = `${hub.url}${path}?${new URLSearchParams(query).toString()}`
        const request = http.request(url, { agent, timeout: askMs }, response => {
          const pieces: Buffer[] = []
          response.on('data', (piece: Buffer) => pieces.push(piece))
          response.on('error', reject)
          response.on('end', () => {
            const body = JSON.parse(Buffer.concat(pieces).toString()) as HubAnswer['body']
            resolve({ status: response.statusCode as number, body })
          })
        })
        request.on('timeout', () => request.destroy(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' })))
        request.on('error', reject)
        request.end()
      })
    }
  }
}
