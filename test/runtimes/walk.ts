import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { createClient, type Client } from '../support/client.js'
import { openStream } from '../support/sse.js'
import { openTerminal } from '../support/web-terminal.js'
import { runOnce, startServed, type Invocation, type Said, type Served } from '../support/served.js'

/** The directory with the two unpacked bundles, which users have. */
export interface Bundles {
  server: string
  client: string
}

export interface Subject {
  /** The program that runs `bin/svc.js`. */
  program: string
  /** Words after `serve --port 0`. */
  serveWords?: string[]
  /** Directories at the start of PATH. */
  path?: string[]
  /** The runtime that must run the server. */
  runs: 'node' | 'bun'
  version: string
  /** Why the terminal must be off, which the start must say; undefined if it must work. */
  noTerminal?: RegExp
}

/** Null for success, otherwise the reason. */
export type Outcomes = Record<string, string | null>

/** Time limit above what any step takes on a loaded machine. */
const stepMs = 40_000

export const steps = [
  'names',
  'start',
  'doctor',
  'push',
  'output',
  'tail',
  'search',
  'terminal',
  'rollback',
  'repair',
  'export',
  'cancel',
  'stop',
  'again'
] as const
type Step = (typeof steps)[number]

/** Walks through all features with one runtime. This process only watches. */
export async function walk(bundles: Bundles, subject: Subject): Promise<Outcomes> {
  const directory = mkdtempSync(join(tmpdir(), 'svc-walk-'))
  const outcomes: Outcomes = {}
  const stage = createStage(bundles, subject, directory)
  try {
    for (const step of steps) {
      outcomes[step] = await within(stage[step]).then(
        () => null,
        (error: unknown) => sentenceOf(error)
      )
      // Nothing else can be told of a server that is not there.
      if (step === 'start' && outcomes[step] !== null) break
    }
  } finally {
    stage.end()
    // Bun may still be writing to its cache.
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 })
  }
  return outcomes
}

function createStage(
  { server, client: clientBundle }: Bundles,
  subject: Subject,
  directory: string
): Record<Step, () => Promise<void>> & { end(): void } {
  const { program, runs, version, noTerminal, serveWords = [], path = [] } = subject
  const env = {
    PATH: [...path, process.env['PATH'] ?? ''].join(delimiter),
    HOME: directory,
    SVC_HOME: join(directory, 'home')
  }
  const site = join(directory, 'site')
  const target = join(directory, 'www')
  const log = join(directory, 'app.log')
  let served: Served | undefined
  let project = { id: '', token: '' }

  const start = async (): Promise<Served> => {
    const command = [program, join(server, 'bin/svc.js'), 'serve', '--port', '0', ...serveWords] as const
    served = await startServed({ command, cwd: directory, env })
    return served
  }
  const running = (): Served => {
    if (served === undefined) throw new Error('no server runs')
    return served
  }
  const client = (): Client => createClient(() => running().url, running().adminToken)
  const invoke = (words: string[], secrets: Record<string, string>, bundle = clientBundle): Invocation => {
    const settings = { SVC_SERVER_URL: running().url, NO_COLOR: '1', ...secrets }
    return { command: [program, join(bundle, 'bin/svc.js'), ...words], cwd: site, env: { ...env, ...settings } }
  }
  const svc = async (words: string[], secrets: Record<string, string> = {}, bundle = clientBundle): Promise<Said> =>
    succeeded(words, await runOnce(invoke(words, secrets, bundle)))
  const succeeded = (words: string[], said: Said): Said => {
    if (said.code !== 0) throw new Error(`svc ${words[0]} ended with ${said.code}: ${said.stderr}${said.stdout}`)
    return said
  }
  /** Calls `onBegun` when the script has started; it continues when a file `go` exists in the target. */
  const begin = (text: string, onBegun: () => unknown): Promise<Said> => {
    writeFileSync(join(site, 'index.html'), text)
    // A rollback runs it too, and need not wait.
    const script =
      'echo begun; until [ -e go -o $SVC_DEPLOY_MODE = rollback ]; do sleep 0.1; done; rm -f go; echo deployed'
    const words = ['push', '--project', project.id, '--post', script]
    let hasBegun = false
    return runOnce(invoke(words, { SVC_DEPLOY_TOKEN: project.token }), stdout => {
      if (hasBegun || !/^begun$/m.test(stdout)) return
      hasBegun = true
      onBegun()
    })
  }
  // A line that is held back until the deployment has ended would never come.
  const push = async (text: string): Promise<Said> =>
    succeeded(['push'], await begin(text, () => writeFileSync(join(target, 'go'), '')))
  const isServed = (text: string): void => equal(readFileSync(join(target, 'index.html'), 'utf8'), text, 'index.html')

  return {
    async names() {
      // One name that a runtime does not have keeps the whole module from being loaded, and some are loaded late.
      const wanted = namesOfNode(join(server, 'dist/lib'))
      const script = `const wanted = ${JSON.stringify(wanted)}
        Promise.all(wanted.map(async ([from, name]) => name in (await import(from)) ? [] : [name + ' of ' + from])).then(all => console.log(all.flat().join(', ')))`
      equal(
        (await runOnce({ command: [program, '-e', script], cwd: directory, env })).stdout,
        '\n',
        'names that are imported and not there'
      )
    },

    async start() {
      const { adminToken, says } = await start()
      if (noTerminal !== undefined) await says(noTerminal)
      const { body } = await client().get('/api/health/detail')
      equal(body.runtime, { name: runs, version: `v${version}` }, 'the runtime that health names')
      equal((await client().get('/')).status, 200, 'the panel')
      mkdirSync(site)
      // Large enough to be compressed in pieces, beside one that is not compressed at all.
      writeFileSync(
        join(site, 'data.json'),
        JSON.stringify(Array.from({ length: 20_000 }, (_, at) => ({ at, token: adminToken.length })))
      )
      writeFileSync(join(site, 'picture.png'), Buffer.alloc(300_000, 'png'))
      project = (await client().post('/api/projects', { name: 'Walk', deployPath: target })).body.project
    },

    async doctor() {
      const { stdout } = await svc(['doctor', '--json'], { SVC_TOKEN: running().adminToken })
      const { findings } = JSON.parse(stdout) as { findings: Array<{ check: string; result: string; detail: string }> }
      const of = (check: string): { result?: string; detail?: string } =>
        findings.find(finding => finding.check === check) ?? {}
      matches(String(of('Server runtime').detail), new RegExp(`${runs} v${version}`, 'i'))
      const terminal = of('Terminal')
      equal(terminal.result, noTerminal === undefined ? 'pass' : 'warning', 'what doctor says of the terminal')
      if (noTerminal !== undefined) matches(String(terminal.detail), noTerminal)
    },

    async push() {
      for (const text of ['one', 'two']) {
        matches((await push(text)).stdout, /deployed\n/)
        isServed(text)
      }
      equal(readFileSync(join(target, 'picture.png')).length, 300_000, 'picture.png')
    },

    async output() {
      const [latest] = (await client().get(`/api/logs?projectId=${project.id}`)).body as Array<{ id: string }>
      const stream = await openStream(client(), `/api/logs/${latest?.id}/stream?timestamps=1`)
      await stream.next(({ event, data }) => event === 'log' && data.data === 'deployed', stepMs)
      equal((await stream.next('status', stepMs)).data.status, 'success', 'the status at the end of the stream')
      await stream.ended
    },

    async tail() {
      writeFileSync(log, 'first line\n')
      const { body } = await client().post(`/api/projects/${project.id}/log-sources`, { items: [{ filePath: log }] })
      const source = `/api/log-sources/${body.items[0].id}`
      const stream = await openStream(client(), `${source}/stream`)
      await stream.next('snapshot', stepMs)
      appendFileSync(log, 'a needle appears\n')
      await stream.next(({ data }) => JSON.stringify(data).includes('a needle appears'), stepMs)
      stream.close()
    },

    async search() {
      const { body } = await client().get(`/api/projects/${project.id}/log-sources`)
      const stream = await openStream(client(), `/api/log-sources/${body.items[0].id}/search?q=needle&context=0`)
      equal((await stream.next('hit', stepMs)).data.text, 'a needle appears', 'the line that was found')
      await stream.next('done', stepMs)
      stream.close()
    },

    async terminal() {
      const { body } = await client().get('/api/terminal/available')
      equal(body.available, noTerminal === undefined, `whether there is a terminal (${body.reason})`)
      if (noTerminal !== undefined) {
        matches(body.reason, noTerminal)
        equal(
          (await client().get('/api/terminal/ws', { upgrade: 'websocket', connection: 'Upgrade' })).status,
          501,
          'the answer to who wants one'
        )
        return
      }
      const terminal = await openTerminal({ url: running().url, client: client() })
      terminal.say({ type: 'resize', cols: 91, rows: 17 })
      terminal.type('stty size; echo thr""ough; exit 3\n')
      await terminal.sees(/17 91\r\n/)
      await terminal.sees(/through\r\n/)
      await terminal.closed()
      equal(await terminal.hears(), { type: 'exit', exitCode: 3, signal: null }, 'the end of the shell')
    },

    async rollback() {
      await svc(['rollback', project.id, '--yes'], { SVC_TOKEN: running().adminToken })
      isServed('one')
    },

    async repair() {
      const secrets = { SVC_TOKEN: running().adminToken }
      const { stderr } = await runOnce(invoke(['verify', project.id], secrets))
      matches(stderr, /not part of the client package/)
      await svc(['verify', project.id], secrets, server)
      writeFileSync(join(target, 'index.html'), 'edited')
      const { code, stdout } = await runOnce(invoke(['verify', project.id], secrets, server))
      equal(code, 1, 'the exit code of verify after an edit')
      matches(stdout, /index\.html/)
      await svc(['repair', project.id, '--yes'], secrets, server)
      isServed('one')
    },

    async export() {
      const { url, adminToken } = running()
      const file = join(directory, 'walk.zip')
      await svc(['export', '--out', file], { SVC_TOKEN: adminToken, SVC_SERVER_URL: url }, server)
      await svc(['import', file, '--dry-run'], { SVC_TOKEN: adminToken, SVC_SERVER_URL: url }, server)
    },

    async cancel() {
      const { code } = await begin('cancelled', async () => {
        const [latest] = (await client().get(`/api/logs?projectId=${project.id}`)).body as Array<{ id: string }>
        await svc(['cancel', latest?.id ?? ''], { SVC_TOKEN: running().adminToken })
      })
      equal(code, 1, 'the exit code of the push that was cancelled')
    },

    async stop() {
      const ended = served
      equal(await ended?.stop(), 0, 'the exit code after SIGTERM')
      const complaints = ended
        ?.complained()
        .split('\n')
        .filter(line => !/^Stopping(?:$|: )/.test(line) && !noTerminal?.test(line))
      equal(complaints, [''], 'what was said on stderr, deprecations included')
    },

    async again() {
      const { stop } = await start()
      const records = (await client().get(`/api/logs?projectId=${project.id}`)).body as Array<{ status: string }>
      equal(
        records.map(({ status }) => status),
        ['failed', 'success', 'success', 'success', 'success'],
        'the records of before'
      )
      matches((await push('three')).stdout, /deployed\n/)
      isServed('three')
      equal(await stop(), 0, 'the exit code after SIGTERM')
    },

    end: () => served?.kill()
  }
}

/** Returns the names that the compiled modules import from Node. */
function namesOfNode(directory: string): Array<[from: string, name: string]> {
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.js'))
  return files.flatMap(path => {
    const imports = readFileSync(join(directory, path), 'utf8').matchAll(
      /^import \{([^}]*)\} from ['"](node:[^'"]+)['"]/gm
    )
    return [...imports].flatMap(([, names, from]) =>
      (names as string)
        .split(',')
        .map((name): [string, string] => [from as string, name.trim().split(' as ')[0] as string])
    )
  })
}

async function within(work: () => Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>(
    (_, reject) => (timer = setTimeout(() => reject(new Error(`nothing came in ${stepMs / 1000} s`)), stepMs))
  )
  await Promise.race([work(), late]).finally(() => clearTimeout(timer))
}

function equal(found: unknown, wanted: unknown, what: string): void {
  const [seen, expected] = [JSON.stringify(found), JSON.stringify(wanted)]
  if (seen !== expected) throw new Error(`${what}: ${seen}, not ${expected}`)
}

function matches(text: string, pattern: RegExp): void {
  if (!pattern.test(text)) throw new Error(`${pattern} is not in ${JSON.stringify(text.slice(-600))}`)
}

function sentenceOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error))
    .trim()
    .replace(/\s*\n\s*/g, ' · ')
    .slice(0, 600)
}
