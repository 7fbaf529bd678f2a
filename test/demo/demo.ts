/**
 * `make demo`: the real commands against a real server on a throw-away data directory. Serves until Ctrl-C on a
 * terminal; elsewhere it ends after the last step.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bold } from './stage.js'

const top = fileURLToPath(new URL('../../../', import.meta.url))
/** The words that run svc. A test of the documents runs it through a door (test/support/door.ts): no start of Node. */
const door = process.env['DOOR']
const [program = '', ...first] = door ? door.split(' ') : [process.execPath, join(top, 'bin/svc.js')]
const stage = mkdtempSync(join(tmpdir(), 'svc-demo-'))
const workshop = join(stage, 'storefront')
const site = join(workshop, 'dist')
const target = join(stage, 'www')
const environment = { ...process.env, SVC_HOME: join(stage, 'home'), ADMIN_TOKEN: '' }
/** A machine that the others do not reach. */
const inside = join(stage, 'inside')
const insideHome = { SVC_HOME: join(inside, 'home') }

function say(text: string): void {
  process.stdout.write(`\n${bold(text)}\n`)
}

/** A server that runs. */
interface Served {
  server: ChildProcess
  address: string
  token: string
}

/** Starts the server, by default on a free port; resolves once it has said where it listens. */
function serve(port = '0', known?: string, home: Record<string, string> = {}): Promise<Served> {
  say(`$ svc serve --port ${port}`)
  const server = spawn(program, [...first, 'serve', '--port', port], {
    cwd: stage,
    env: { ...environment, ...home },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let text = ''
  return new Promise((resolve, reject) => {
    server.once('exit', code => reject(new Error(`svc serve ended with ${code}`)))
    server.stdout.on('data', (bytes: Buffer) => {
      process.stdout.write(bytes)
      text += bytes.toString()
      const address = /https?:\/\/[\w.:[\]]+/.exec(text)?.[0]
      const token = known ?? /Admin token: (\S+)/.exec(text)?.[1]
      if (address && token && /Data directory: .*\n/.test(text)) resolve({ server, address, token })
    })
  })
}

/** Runs one command as a user would type it, and expects its exit code. `secrets` are in its environment. */
async function svc(words: string[], secrets: Record<string, string> = {}, expectedCode = 0): Promise<void> {
  await svcIn(workshop, words, { env: secrets, expectedCode })
}

/** Runs one command in a directory. */
async function svcIn(
  cwd: string,
  words: string[],
  { env = {}, expectedCode = 0 }: { env?: Record<string, string>; expectedCode?: number } = {}
): Promise<void> {
  const quoted = (word: string): string => (/[^\w./:=-]/.test(word) ? `'${word}'` : word)
  say(`$ svc ${words.map(quoted).join(' ')}`)
  const child = spawn(program, [...first, ...words], {
    cwd,
    env: { ...environment, ...env },
    stdio: ['ignore', 'inherit', 'inherit']
  })
  const code = await new Promise(resolve => child.once('exit', resolve))
  if (code !== expectedCode) throw new Error(`svc ${words[0]} ended with ${code} instead of ${expectedCode}`)
}

async function createProject(
  address: string,
  token: string,
  deployPath = target
): Promise<{ id: string; token: string }> {
  say('Creating the project "Harbour Books"')
  const response = await fetch(`${address}/api/projects`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Harbour Books', deployPath })
  })
  const answer = (await response.json()) as { project: { id: string; token: string }; error?: string }
  if (!response.ok) throw new Error(answer.error)
  process.stdout.write(`${answer.project.id} → ${deployPath}\n`)
  return answer.project
}

function bookPage(number: number): string {
  return join(site, `book-${String(number).padStart(3, '0')}.html`)
}

function pageOfBook(number: number, state = 'in stock'): string {
  const lines = Array.from({ length: 60 }, (_, line) => `<p>Book ${number}, page ${line}: a story of the sea.</p>`)
  return `<h1>Book ${number}</h1>\n<p>${state}</p>\n${lines.join('\n')}\n`
}

function showPage(from = target): void {
  const heading = /<h1>(.*)<\/h1>/.exec(readFileSync(join(from, 'index.html'), 'utf8'))?.[1]
  process.stdout.write(`\nThe page now says: ${heading}\n`)
}

/** Ends the server, and waits until it has ended. */
async function stop({ server }: Served): Promise<void> {
  const ended = new Promise(resolve => server.removeAllListeners('exit').once('exit', resolve))
  server.kill('SIGTERM')
  await ended
}

async function play(address: string, token: string): Promise<{ deployToken: Record<string, string> }> {
  const project = await createProject(address, token)
  cpSync(join(top, 'test/demo/site'), site, { recursive: true })
  const deployToken = { SVC_DEPLOY_TOKEN: project.token }
  const adminToken = { SVC_TOKEN: token }

  await svc(['init', '--project', project.id, '--server', address, '--out', 'dist'])
  await svc(['push', '-m', 'First version'], deployToken)
  showPage()

  const page = join(site, 'index.html')
  replaceIn(page, 'Harbour Books', 'Harbor Boks')
  say('What would the next push do?')
  await svc(['plan', '--post', 'ls -l'], deployToken)
  await svc(['push', '-m', 'A new spelling', '--post', 'ls -l'], deployToken)
  showPage()

  say('That was a mistake: undo it')
  await svc(['undo', '--yes'], adminToken)
  showPage()

  say('From now on, a deployment is a success only if the page has the right name')
  const gate = JSON.stringify({ after: [{ command: 'grep -q Harbour index.html' }], deadline: 5 })
  await svc(['projects', 'set', project.id, '--policy', `gate=${gate}`], adminToken)
  await svc(['push', '-m', 'The same mistake'], deployToken, 1)
  showPage()

  say('Somebody edits a file on the server')
  replaceIn(join(target, 'index.html'), 'Harbour Books', 'Harbour Books & Maps')
  await svc(['drift', project.id], adminToken)
  await svc(['repair', '--yes'], adminToken)
  showPage()

  say('A release without one of the files removes it, and an undo brings it back')
  await svc(['projects', 'set', project.id, '--policy', 'prune=managed'], adminToken)
  replaceIn(page, 'Harbor Boks', 'Harbour Books')
  rmSync(join(site, 'robots.txt'))
  await svc(['push', '-m', 'Without robots.txt'], deployToken)
  await svc(['undo', '--yes'], adminToken)

  say('The site grows to 200 files. A push sends what has changed since the last one')
  for (let at = 1; at <= 198; at++) writeFileSync(bookPage(at), pageOfBook(at))
  await svc(['push', '-m', 'A page for each book'], deployToken)
  writeFileSync(bookPage(7), pageOfBook(7, 'sold out'))
  await svc(['push', '-m', 'One book is sold out'], deployToken)

  say('The server signs what it did. An auditor checks that without the server')
  const receipt = join(stage, 'receipt.json')
  await svc(['push', '-m', 'With a receipt', '--receipt', receipt], deployToken)
  const key = join(environment.SVC_HOME, 'keys/server.pub')
  await svc(['receipt', 'verify', receipt, '--key', key, '--tree', target])

  say('Is every file as it was deployed?')
  await svc(['verify', project.id], adminToken)
  await svc(['status'], adminToken)
  return { deployToken }
}

/** The server is restored from a backup that lacks a deployment, and goes on. */
async function restore(before: Served, deployToken: Record<string, string>): Promise<void> {
  say('A backup. After it, a deployment that the backup lacks')
  const [page, backup] = [join(site, 'index.html'), join(stage, 'backup.zip')]
  await svc(['backup', backup])
  replaceIn(page, 'Harbour Books', 'Harbour Books & Tea')
  await svc(['push', '-m', 'And tea'], deployToken)
  say('The server loses its disk, and is restored. The site stays as it is')
  await stop(before)
  await svc(['restore', '--force', backup])
  running = await serve(new URL(before.address).port, before.token)
  showPage()
  replaceIn(page, 'Books & Tea', 'Books, Tea & Toys')
  await svc(['push', '-m', 'And toys'], deployToken)
  showPage()
}

const releaseKey = join(stage, 'release.key')
const onlySigned = 'signatures={"require":"refuse"}'

/** The project takes only releases that a key has signed. */
async function sign(deployToken: Record<string, string>, adminToken: Record<string, string>): Promise<void> {
  say('From now on, the project takes only releases that a key has signed')
  await svc(['keys', 'generate', releaseKey])
  await svc(['keys', 'trust', `${releaseKey}.pub`, '--name', 'release'], adminToken)
  await svc(['projects', 'set', 'Harbour Books', '--policy', onlySigned], adminToken)
  replaceIn(join(site, 'index.html'), 'Tea & Toys', 'Tea & Signatures')
  await svc(['push', '-m', 'Not signed'], deployToken, 1)
  showPage()
  await svc(['push', '-m', 'Signed', '--sign-key', releaseKey], deployToken)
  showPage()
}

/** A signed bundle carries the release to a server that this machine does not reach. */
async function carry(): Promise<void> {
  say('There is a second server, behind a gap, which trusts the same key')
  mkdirSync(inside)
  const [made, carried, place] = [join(stage, 'books.svcb'), join(inside, 'books.svcb'), join(inside, 'www')]
  const there = await serve('0', undefined, insideHome)
  try {
    const { id } = await createProject(there.address, there.token, place)
    const env = { SVC_SERVER_URL: there.address, SVC_TOKEN: there.token }
    await svcIn(inside, ['keys', 'trust', `${releaseKey}.pub`, '--name', 'release'], { env })
    await svcIn(inside, ['projects', 'set', id, '--policy', onlySigned], { env })
    say('A bundle carries the release to it. First one that nobody signed')
    await svc(['bundle', '--project', id, '-m', 'Not signed', '--file', carried])
    await svcIn(inside, ['apply', carried, '--yes'], { env: insideHome, expectedCode: 1 })
    await svc(['bundle', '--project', id, '-m', 'Carried over', '--file', made, '--sign-key', releaseKey])
    await svc(['bundle', 'verify', made, '--keys', `${releaseKey}.pub`])
    say('It is carried over, and damaged on its way')
    const bytes = readFileSync(made)
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1
    writeFileSync(carried, bytes)
    await svcIn(inside, ['bundle', 'verify', carried], { expectedCode: 1 })
    say('So it is carried again. The owner of that server sees what it would change, and applies it')
    cpSync(made, carried)
    await svcIn(inside, ['apply', carried, '--dry-run'], { env: insideHome })
    await svcIn(inside, ['apply', carried, '--yes'], { env: insideHome })
    showPage(place)
  } finally {
    await stop(there)
  }
}

function replaceIn(path: string, from: string, to: string): void {
  writeFileSync(path, readFileSync(path, 'utf8').replaceAll(from, to))
}

let running = await serve()
try {
  const { address, token } = running
  const { deployToken } = await play(address, token)
  await restore(running, deployToken)
  await sign(deployToken, { SVC_TOKEN: token })
  await carry()
  say(`The panel: ${address}/`)
  process.stdout.write(`Admin token: ${token}\n`)
  if (process.stdout.isTTY) {
    process.stdout.write('Ctrl-C stops the server and removes everything it wrote.\n')
    process.on('SIGINT', () => undefined)
    await new Promise(resolve => running.server.once('exit', resolve))
  }
} finally {
  if (running.server.exitCode === null) await stop(running)
  rmSync(stage, { recursive: true, force: true })
}
