import { spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { parseDotenv } from '../../lib/base/config/files.js'
import type { Deployment } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { layDatabase } from './new-database.js'
import { bareEnvironment, programHere, svcPath } from './svc.js'
import { zipOf } from './zip.js'
import { bare } from './bare.js'
import { isThorough } from './thorough.js'
import { serverSays } from './sentences/server.js'

/** `svc serve` on a free port, with a data directory below `cwd`, ended after the test. */
export interface Serving {
  /** The URL that it prints. The JSON calls (`api`, `createProject`, …) work only without TLS. */
  url: string
  adminToken: string
  home: string
  /** Its stdout so far. */
  said(): string
  saidOnStderr(): string
  /** Waits for a text on stderr. */
  warns(pattern: RegExp): Promise<void>
  /** Calls the API with the admin token. */
  api<T>(method: string, path: string, body?: unknown): Promise<T>
  createProject(fields: { name: string; deployPath: string }): Promise<Project>
  /** Changes scripts and switches of a project. */
  changeProject(id: string, fields: object): Promise<void>
  deployments(projectId: string): Promise<Deployment[]>
  /** Uploads these files with the project's token. Resolves when the server begins to answer. */
  upload(project: Project, files: Record<string, string>, fields?: Record<string, string>): Promise<Upload>
  /** Ends it with a signal that svc listens to, and waits. */
  stop(signal?: 'SIGTERM' | 'SIGINT'): Promise<number | null>
}

/** A server that is a process of its own. */
export interface ServeProcess extends Serving {
  pid: number
  /** Ends it with any signal and waits. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

/** A deployment that has started. */
export interface Upload {
  deployId: string
  /** Resolves with all lines of the answer. */
  finished: Promise<Array<Record<string, string>>>
}

/**
 * The admin token of a server that has said where it listens: into a pipe only the start that generates it prints it.
 */
export function tokenSaid(stdout: string, env: Record<string, string | undefined>): string {
  const printed = /Admin token: (\S+)/.exec(stdout)?.[1]
  if (printed !== undefined) return printed
  const from = new RegExp(serverSays.tokenComesFrom('(.+)')).exec(stdout)?.[1] as string
  if (from === 'ADMIN_TOKEN') return env['ADMIN_TOKEN'] as string
  const text = readFileSync(from, 'utf8')
  return from.endsWith('.json')
    ? (JSON.parse(text) as { adminToken: string }).adminToken
    : (parseDotenv(text)['ADMIN_TOKEN'] as string)
}

/** How a server is started, if not as users do. */
export interface ServeProgram {
  /** Options of Node. */
  nodeWords?: string[]
  /** The launcher of another program than this one. */
  program?: string
  /** Called with each part of what it says, also before it listens. */
  onOutput?: (text: string) => void
}

/**
 * Starts a server in this process, through the command line: that takes a tenth of the processor time of a process of
 * its own. With THOROUGH=1 it is a process. The test must not block this process while it asks the server.
 */
export async function startServe(
  t: Pick<Test, 'teardown'>,
  cwd: string,
  words: string[] = [],
  env: Record<string, string> = {}
): Promise<Serving> {
  if (isThorough) return await startServeProcess(t, cwd, words, env)
  return await startServing({ cwd, words, env }, ({ command, environment, hear }) => {
    const { run, signal } = programHere({ cwd, env: environment, hear })
    let isOver = false
    const ended = run(command).finally(() => (isOver = true))
    t.teardown(async () => {
      // The second signal does not wait for deployments.
      for (let n = 0; n < 2 && !isOver; n++) signal('SIGTERM')
      await ended.catch(() => {})
    })
    return { ended, signal }
  })
}

/** Starts a server as users do. It is for tests of signals, of kills, and of what belongs to a process. */
export async function startServeProcess(
  t: Pick<Test, 'teardown'>,
  cwd: string,
  words: string[] = [],
  env: Record<string, string> = {},
  { nodeWords = [], program = svcPath, onOutput = () => {} }: ServeProgram = {}
): Promise<ServeProcess> {
  let pid = 0
  const serving = await startServing(
    { cwd, words, env, ofThisVersion: program === svcPath },
    ({ command, environment, hear }) => {
      const child = spawn(...bare(process.execPath, [...nodeWords, program, ...command]), {
        cwd,
        env: environment,
        stdio: 'pipe'
      })
      pid = child.pid as number
      for (const name of ['stdout', 'stderr'] as const) {
        child[name].setEncoding('utf8').on('data', (text: string) => {
          hear(name, text)
          onOutput(text)
        })
      }
      const ended = (once(child, 'close') as Promise<[number | null]>).then(([code]) => code)
      t.teardown(async () => {
        child.kill('SIGKILL')
        await ended
      })
      return { ended, signal: name => child.kill(name) }
    }
  )
  return { ...serving, pid }
}

interface Beginning {
  command: string[]
  environment: Record<string, string>
  hear(name: 'stdout' | 'stderr', text: string): void
}

/** Resolves when the server has said where it listens. */
async function startServing(
  {
    cwd,
    words,
    env,
    ofThisVersion = true
  }: { cwd: string; words: string[]; env: Record<string, string>; ofThisVersion?: boolean },
  begin: (how: Beginning) => { ended: Promise<number | null>; signal(name: NodeJS.Signals): void }
): Promise<Serving> {
  const environment = bareEnvironment(cwd, { SVC_HOME: join(cwd, 'server-home'), ...env })
  // A hub gets the database of its cluster.
  if (!words.includes('--store') && ofThisVersion) await layDatabase(environment['SVC_HOME'] as string)
  const listening = words.includes('--socket') ? [] : ['--port', '0']
  const said = { stdout: '', stderr: '' }
  const heard = new EventEmitter()
  const { ended, signal } = begin({
    command: ['serve', ...listening, ...words],
    environment,
    hear(name, text) {
      said[name] += text
      heard.emit(name)
    }
  })
  while (!said.stdout.includes('Data directory: ')) {
    const isOver = await Promise.race([once(heard, 'stdout').then(() => false), ended.then(() => true)])
    if (isOver) throw new Error(`svc serve ended: ${said.stderr}`)
  }
  const url = /^svc listens on (\S+?)\/?$/m.exec(said.stdout)?.[1] as string
  const home = environment['SVC_HOME'] as string
  const adminToken = tokenSaid(said.stdout, environment)

  async function api<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) })
    })
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    return (await response.json()) as T
  }

  async function upload(
    project: Project,
    files: Record<string, string>,
    fields: Record<string, string> = {}
  ): Promise<Upload> {
    const form = new FormData()
    for (const [name, value] of Object.entries({ projectId: project.id, ...fields })) form.set(name, value)
    form.set('file', new Blob([await zipOf(files)]), 'archive.zip')
    const headers = { authorization: `Bearer ${project.token}` }
    const response = await fetch(`${url}/api/deploy/upload`, { method: 'POST', headers, body: form })
    if (!response.ok) throw new Error(`upload: ${response.status} ${await response.text()}`)
    const finished = response.text().then(text =>
      text
        .trim()
        .split('\n')
        .map(line => JSON.parse(line) as Record<string, string>)
    )
    return { deployId: response.headers.get('x-svc-deploy-id') as string, finished }
  }

  return {
    url,
    adminToken,
    home,
    said: () => said.stdout,
    saidOnStderr: () => said.stderr,
    async warns(pattern) {
      while (!pattern.test(said.stderr)) await once(heard, 'stderr')
    },
    api,
    createProject: async fields => (await api<{ project: Project }>('POST', '/api/projects', fields)).project,
    changeProject: async (id, fields) => void (await api('PUT', `/api/projects/${id}`, fields)),
    deployments: projectId => api('GET', `/api/logs?projectId=${projectId}`),
    upload,
    async stop(name: NodeJS.Signals = 'SIGTERM') {
      signal(name)
      return await ended
    }
  }
}
