/*
 * `make runtimes`: one walk (walk.ts) on every runtime that svc promises to run on, each fetched from the npm registry,
 * with the bundles that users get. Prints what went well and why the rest did not; exit code 1 where something failed.
 * The last line counts like the last one of a test run.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { makeBundles } from '../release/bundle.js'
import { fetchBun, fetchNode, newestBun, nodeVersions, type Fetched } from './registry.js'
import { runOnce } from '../support/served.js'
import { steps, walk, type Bundles, type Outcomes, type Subject } from './walk.js'

/** The oldest version that `engines` allows. For older ones, bin/svc.js prints one sentence. */
const oldest = '18.0.0'
const majors = [18, 20, 22, 24]
const tooOld = 16
const noTerminalInBun = /The terminal needs Node: node-pty does not work in Bun/

interface Row {
  what: string
  outcomes: Outcomes
}

function unpack(archive: string, into: string): string {
  mkdirSync(into, { recursive: true })
  execFileSync('tar', ['xzf', archive, '-C', into, '--strip-components=1'])
  return into
}

/** Returns a directory for PATH with this program under its usual name. */
function onPath(directory: string, name: string, program: string): string {
  const place = join(directory, `with-${name}-${basename(dirname(dirname(program)))}`)
  mkdirSync(place, { recursive: true })
  symlinkSync(program, join(place, name))
  return place
}

/** The message for a Node that is too old, instead of a parser's errors. */
async function refusal({ server }: Bundles, { path, version }: Fetched): Promise<Outcomes> {
  const { code, stdout, stderr } = await runOnce({
    command: [path, join(server, 'bin/svc.js'), 'serve'],
    cwd: tmpdir(),
    env: {}
  })
  const isRight = code === 1 && stdout === '' && stderr === `svc needs Node.js 18 or newer: this is v${version}\n`
  return { refuses: isRight ? null : `exit code ${code}, ${JSON.stringify(stdout + stderr)}` }
}

async function rows(directory: string, bundles: Bundles, show: (row: Row) => void): Promise<void> {
  const [old, ...supported] = await Promise.all((await nodeVersions([tooOld, ...majors])).map(fetchNode))
  const bun = await fetchBun(await newestBun())
  const first = await fetchNode(oldest)
  show({ what: `Node ${old?.version}`, outcomes: await refusal(bundles, old as Fetched) })
  const inBun = { runs: 'bun', version: bun.version, noTerminal: noTerminalInBun } as const
  const subjects: Array<[what: string, subject: Subject]> = [first, ...supported].map(({ version, path }) => [
    `Node ${version}`,
    { program: path, runs: 'node', version }
  ])
  const [node] = supported.slice(-1) as [Fetched]
  const [withBun, withNode] = [onPath(directory, 'bun', bun.path), onPath(directory, 'node', node.path)]
  subjects.push(
    [`Bun ${bun.version}`, { program: bun.path, ...inBun }],
    ['--runtime bun', { program: node.path, path: [withBun], serveWords: ['--runtime', 'bun'], ...inBun }],
    ['auto beside Bun', { program: node.path, path: [withBun], runs: 'node', version: node.version }],
    [
      'Bun --runtime node',
      { program: bun.path, path: [withNode], serveWords: ['--runtime', 'node'], runs: 'node', version: node.version }
    ]
  )
  for (const [what, subject] of subjects) show({ what, outcomes: await walk(bundles, subject) })
}

const directory = mkdtempSync(join(tmpdir(), 'svc-runtimes-'))
const seen = { pass: 0, fail: 0 }

function show({ what, outcomes }: Row): void {
  const cells = ('refuses' in outcomes ? ['refuses'] : steps).map(step => {
    const outcome = outcomes[step]
    if (outcome === null) seen.pass++
    else seen.fail++
    return `${outcome === null ? '✓' : '✗'} ${step}`
  })
  console.log(`${what.padEnd(20)} ${cells.join('  ')}`)
  for (const [step, why] of Object.entries(outcomes)) if (why !== null) console.log(`  ${step}: ${why}`)
}

try {
  const [whole, client] = (await makeBundles(join(directory, 'made'))).map(({ path }) => path) as [string, string]
  const bundles = {
    server: unpack(whole, join(directory, 'svc')),
    client: unpack(client, join(directory, 'svc-client'))
  }
  await rows(directory, bundles, show)
} catch (error) {
  seen.fail++
  console.error(error instanceof Error ? error.message : error)
} finally {
  rmSync(directory, { recursive: true, force: true })
}
if (seen.fail > 0) process.exitCode = 1
console.log(`# { total: ${seen.pass + seen.fail}, pass: ${seen.pass}, fail: ${seen.fail} }`)
