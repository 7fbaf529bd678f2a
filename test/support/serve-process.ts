import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { parseDotenv } from '../../lib/base/config/files.js'
import type { Deployment } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { bareEnvironment, svcPath } from './svc.js'
import { zipOf } from './zip.js'
import { bare } from './bare.js'
import { serverSays } from './sentences/server.js'

/** A real `svc serve` on a free port, with a data directory below `cwd`, ended after the test. */
export interface ServeProcess {
  /** The URL that it prints. The JSON calls (`api`, `createProject`, …) work only without TLS. */
  url: string
  adminToken: string
  home: string
  pid: number
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
  /** Ends it with a signal and waits. */
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

export async function startServeProcess(
  t: Pick<Test, 'teardown'>,
  cwd: string,
  words: string[] = [],
  env: Record<string, string> = {},
  { nodeWords = [], program = svcPath, onOutput = () => {} }: ServeProgram = {}
): Promise<ServeProcess> {
  const environment = bareEnvironment(cwd, { SVC_HOME: join(cwd, 'server-home'), ...env })
  const listening = words.includes('--socket') ? [] : ['--port', '0']
  const child = spawn(...bare(process.execPath, [...nodeWords, program, 'serve', ...listening, ...words]), {
    cwd,
    env: environment,
    stdio: 'pipe'
  })
  const ended = once(child, 'close') as Promise<[number | null]>
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const said = { stdout: '', stderr: '' }
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: unknown) => onOutput(String(text)))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.stderr += text))
  child.stdout.setEncoding('utf8')
  while (!said.stdout.includes('Data directory: ')) {
    const next = (await Promise.race([once(child.stdout, 'data'), ended.then(() => null)])) as [string] | null
    if (next === null) throw new Error(`svc serve ended: ${said.stderr}`)
    said.stdout += next[0]
  }
  child.stdout.on('data', (text: string) => (said.stdout += text))
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
    pid: child.pid as number,
    said: () => said.stdout,
    saidOnStderr: () => said.stderr,
    async warns(pattern) {
      while (!pattern.test(said.stderr)) await once(child.stderr, 'data')
    },
    api,
    createProject: async fields => (await api<{ project: Project }>('POST', '/api/projects', fields)).project,
    changeProject: async (id, fields) => void (await api('PUT', `/api/projects/${id}`, fields)),
    deployments: projectId => api('GET', `/api/logs?projectId=${projectId}`),
    upload,
    async stop(signal = 'SIGTERM') {
      child.kill(signal)
      return (await ended)[0]
    }
  }
}
