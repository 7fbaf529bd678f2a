/*
 * The walk of an auditor: docs/proof.md, "Verify without svc", line by line on a machine that has neither svc nor Node. Its PATH
 * has only the programs that the document names. What was forged stops the walk.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { findProgram } from '../support/programs.js'
import { startServe } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { blocksOf, top } from './document.js'

const document = 'docs/proof.md'
/** Coreutils, find, grep and sed, and the two programs that verify. */
const programs = [
  ...[
    'base64',
    'cat',
    'cut',
    'echo',
    'env',
    'head',
    'readlink',
    'sha256sum',
    'sort',
    'stat',
    'tail',
    'test',
    'tr',
    'wc'
  ],
  ...['find', 'grep', 'sed', 'xargs', 'openssl', 'ssh-keygen']
]
const absent = programs.filter(name => findProgram(name) === null)
const skip = absent.length > 0 && `${absent.join(', ')} not installed`

/** The commands of a section. */
function walkOf(heading: string): string {
  const lines = readFileSync(join(top, document), 'utf8').split('\n')
  const from = lines.indexOf(`## ${heading}`)
  const end = lines.findIndex((line, at) => at > from && line.startsWith('## '))
  const blocks = blocksOf(document).filter(({ line, mark }) => line > from && line < end && mark === 'sh')
  return blocks.map(({ text }) => text).join('\n')
}

t.test('docs/proof.md is followed without svc and without Node', { skip }, async t => {
  // Names that programs take for options, or for their input.
  const odd = {
    '-': 'minus',
    '-n': 'n',
    '--help': 'help',
    ' lead': 's',
    'trail ': 's',
    'ä.txt': 'a',
    '%s': 'p',
    "it's": 'q'
  }
  const top = t.testdir({ dist: { 'index.html': '<h1>A site</h1>\n', 'a b': { 'c.txt': 'c' }, ...odd } })
  symlinkSync('a b/c.txt', join(top, 'dist/-link'))
  const server = await startServe(t, top)
  const shop = await server.createProject({ name: 'shop', deployPath: join(top, 'www') })
  const env = { SVC_HOME: server.home, SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token }
  const given = join(top, 'given')
  mkdirSync(given)
  const push = ['push', '--project', shop.id, '--out', 'dist']
  t.equal((await svc(push, { cwd: top, env })).code, 0)
  writeFileSync(join(top, 'dist/index.html'), '<h1>Another</h1>\n')
  t.equal((await svc([...push, '--receipt', 'given/receipt.json'], { cwd: top, env })).code, 0)
  const exported = ['receipt', 'export', '--out', 'given/receipts.jsonl', '--token', server.adminToken]
  t.equal((await svc(exported, { cwd: top, env })).code, 0)
  cpSync(join(server.home, 'keys/server.pub'), join(given, 'server.pub'))
  cpSync(join(top, 'www'), join(given, 'site'), { recursive: true, verbatimSymlinks: true })
  await server.stop()

  const bin = join(top, 'bin')
  mkdirSync(bin)
  for (const name of programs) symlinkSync(findProgram(name) as string, join(bin, name))
  /** Follows the document in a copy of what the auditor was given. */
  const walk = (change: (directory: string) => void = () => {}): { status: number | null; said: string } => {
    const directory = join(top, 'auditor')
    rmSync(directory, { recursive: true, force: true })
    cpSync(given, directory, { recursive: true, verbatimSymlinks: true })
    change(directory)
    const text = walkOf('Verify without svc').replaceAll('/srv/site', join(directory, 'site'))
    const { status, stdout, stderr } = spawnSync(findProgram('bash') as string, ['-eu', '-o', 'pipefail', '-c', text], {
      cwd: directory,
      env: { PATH: bin, LANG: 'C.UTF-8' },
      encoding: 'utf8'
    })
    return { status, said: stdout + stderr }
  }
  for (const name of ['node', 'svc'])
    t.throws(() => execFileSync(findProgram('bash') as string, ['-c', name], { env: { PATH: bin }, stdio: 'ignore' }))
  const good = walk()
  t.equal(good.status, 0, good.said)
  t.match(good.said, /Signature Verified Successfully/)
  t.match(good.said, /"project":\{"id":"proj_[^}]*"name":"shop"\}/)

  const forgeries: Record<string, (directory: string) => void> = {
    'another status in the receipt': directory => edit(join(directory, 'receipt.json'), forged),
    'another signature': directory => {
      edit(join(directory, 'receipt.json'), text =>
        text.replace(/"sig":"./, found => `${found.slice(0, -1)}${found.endsWith('A') ? 'B' : 'A'}`)
      )
    },
    'the key of another server': directory => {
      edit(join(directory, 'server.pub'), text => `${text.trim().slice(0, -8)}AAAAAAA=\n`)
    },
    'a receipt left out': directory => {
      edit(join(directory, 'receipts.jsonl'), text =>
        text
          .split('\n')
          .filter((_, at) => at !== 1)
          .join('\n')
      )
    },
    'a file that was changed': directory => writeFileSync(join(directory, 'site/index.html'), '<h1>Evil</h1>\n'),
    'a file more': directory => writeFileSync(join(directory, 'site/shell.php'), '<?php'),
    'a file less': directory => rmSync(join(directory, 'site/a b/c.txt'))
  }
  for (const [name, change] of Object.entries(forgeries)) t.not(walk(change).status, 0, name)
})

function edit(path: string, change: (text: string) => string): void {
  const text = readFileSync(path, 'utf8')
  const changed = change(text)
  if (changed === text) throw new Error(`Nothing was changed in ${path}`)
  writeFileSync(path, changed)
}

/** Changes the statement of a receipt, and leaves its signature. */
function forged(text: string): string {
  const envelope = JSON.parse(text) as { payload: string }
  const statement = Buffer.from(envelope.payload, 'base64')
    .toString()
    .replace('"status":"success"', '"status":"failed"')
  return text.replace(envelope.payload, Buffer.from(statement).toString('base64'))
}
