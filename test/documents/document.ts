import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bare } from '../support/bare.js'
import { openDoor } from '../support/door.js'
import { freePort } from '../support/free-port.js'

/*
 * Runs the commands of a document like its reader: every block marked `sh`, in order, in one shell. A block marked
 * `sh server` keeps running; the next block starts when it listens. Programs that would change the machine are replaced
 * (stand-ins/). Ids and tokens come from the output of earlier commands.
 */

export const top = fileURLToPath(new URL('../../../', import.meta.url))
const standIns = join(top, 'test/documents/stand-ins')
/** What `make dist` has made, for all documents of this process. */
const made = mkdtempSync(join(tmpdir(), 'svc-made-'))
process.once('exit', () => rmSync(made, { recursive: true, force: true }))

/** Every document for users. */
export const documents = [
  'README.md',
  ...readdirSync(join(top, 'docs'))
    .filter(name => name.endsWith('.md'))
    .sort()
    .map(name => `docs/${name}`)
]

/** A fenced block: its first line, its mark and its text. */
export interface Block {
  line: number
  mark: string
  text: string
}

export function blocksOf(document: string): Block[] {
  const lines = readFileSync(join(top, document), 'utf8').split('\n')
  const blocks: Block[] = []
  let open: Block | null = null
  for (const [index, line] of lines.entries()) {
    // Blocks within a list are indented, which the shell ignores.
    const fence = /^ *```(.*)$/.exec(line)
    if (open === null && fence !== null) open = { line: index + 1, mark: (fence[1] as string).trim(), text: '' }
    else if (open !== null && fence !== null) {
      blocks.push(open)
      open = null
    } else if (open !== null) open.text += `${line}\n`
  }
  return blocks
}

/** Replacements in a command: the address, ids, secrets, and paths below the root of the stage. */
const readings: Array<[RegExp, string]> = [
  [/node bin\/svc\.js/g, 'svc'],
  [/127\.0\.0\.1:5431/g, '127.0.0.1:@PORT'],
  [/https:\/\/deploy\.example\.org/g, 'http://127.0.0.1:@PORT'],
  [/proj_…/g, '$PROJECT'],
  [/dep_…/g, '$DEPLOYMENT'],
  [/svcnode_…/g, '$NODE_TOKEN'],
  [/\b(SVC_DEPLOY_TOKEN|DEPLOY_TOKEN)=…/g, '$1=$DEPLOY_TOKEN'],
  [/\b(SVC_TOKEN|ADMIN_TOKEN)=…/g, '$1=$ADMIN_TOKEN'],
  [/(?<![\w$/.}])\/(srv|opt|etc|backup|media|tmp|var\/lib|usr\/local\/bin)\b/g, '@ROOT/$1']
]

/** The stage of one document. */
interface Stage {
  root: string
  port: number
}

function asRun(text: string, { root, port }: Stage): string {
  const read = readings.reduce((said, [what, instead]) => said.replace(what, instead), text)
  return read.replaceAll('@ROOT', root).replaceAll('@PORT', String(port))
}

/** The beginning of the script that runs the blocks. `learn` reads ids and tokens from the output for later blocks. */
const opening = `
set -eu -o pipefail
last() { if [[ $line =~ $2 ]]; then printf -v "$1" %s "\${BASH_REMATCH[1]}"; fi; }
ADMIN_TOKEN= PROJECT= DEPLOY_TOKEN= NODE_TOKEN= DEPLOYMENT=
# Without a process: bash reads lines faster than a program starts.
learn() {
  local line
  # An answer may lack the final newline.
  while IFS= read -r line || [ -n "$line" ]; do
    # serve prints it with its name, reset-password alone.
    last ADMIN_TOKEN '^([A-Za-z0-9_-]{43})$'
    last ADMIN_TOKEN '^Admin token: ([A-Za-z0-9_-]{43})$'
    last PROJECT '.*(proj_[a-z0-9]{16})'
    last DEPLOY_TOKEN '.*"token": ?"([^"]+)"'
    last NODE_TOKEN '.*(svcnode_[A-Za-z0-9_-]+)'
    last DEPLOYMENT '.*(dep_[a-z0-9]{16})'
  done < "$1"
}
listening() {
  local said
  until mapfile -t said < "$1"; [[ "\${said[*]}" == *"$3"* ]]; do
    kill -0 "$2" || { cat "$1" >&2; return 1; }
    # The test that waits is gone, for example because of Ctrl-C.
    kill -0 "$PPID" || kill -KILL 0
    sleep 0.05
  done
}
`

function script(blocks: Block[], stage: Stage): string {
  const parts = blocks.map(({ line, mark, text }, index) => {
    const out = `"$ROOT/out.${index}"`
    // An agent is not a node yet when it listens.
    const sign = text.includes('svc agent') ? 'Enrolled as node' : 'Data directory: '
    const run = `{\n${asRun(text, stage)}} > ${out}${mark === 'sh server' ? ` 2>&1 &\nlistening ${out} $! '${sign}'` : ''}`
    return `echo ${line} > "$ROOT/line"\n${run}\nlearn ${out} || true\n`
  })
  return opening + parts.join('\n')
}

export interface Outcome {
  code: number | null
  /** The line of the last block that was started. */
  line: number
  stderr: string
}

/** The state before the first command. */
export interface Given {
  /** Files below the root of the stage; commands run in `work/`. */
  files?: Record<string, string | Buffer>
  env?: Record<string, string>
  /** Commands that the document assumes. */
  done?: Block[]
}

/** The blocks of a document that are run in its order. */
export function commandsOf(document: string): Block[] {
  return blocksOf(document).filter(({ mark }) => /^sh( server)?$/.test(mark))
}

/** Runs blocks on a stage of their own. */
export async function runBlocks(blocks: Block[], { files = {}, env = {}, done = [] }: Given): Promise<Outcome> {
  const stage = { root: mkdtempSync(join(tmpdir(), 'svc-docs-')), port: await freePort() }
  const door = await openDoor(join(stage.root, 'door'))
  // Node reads it for the commands that run here.
  const { HOME = '' } = process.env
  process.env['HOME'] = join(stage.root, 'home')
  try {
    for (const place of places) mkdirSync(join(stage.root, place), { recursive: true })
    for (const [path, contents] of Object.entries(files)) {
      mkdirSync(dirname(join(stage.root, path)), { recursive: true })
      writeFileSync(join(stage.root, path), contents)
    }
    return await runScript(script([...done, ...blocks], stage), stage, { ...env, DOOR: door.words })
  } finally {
    await door.close()
    process.env['HOME'] = HOME
    rmSync(stage.root, { recursive: true, force: true })
  }
}

const places = [
  'work',
  'home',
  'srv',
  'opt',
  'etc/systemd/system',
  'var/lib',
  'backup',
  'media',
  'tmp',
  'usr/local/bin'
]

/** More than thirty times what the slowest document takes on two idle cores. */
const deadlineMs = 600_000

async function runScript(text: string, { root, port }: Stage, env: Record<string, string>): Promise<Outcome> {
  const path = [join(root, 'usr/local/bin'), standIns, dirname(process.execPath), process.env['PATH']].join(':')
  const child = spawn(...bare('bash', ['-c', text]), {
    cwd: join(root, 'work'),
    // Its own process group, so that processes of the document end with it.
    detached: true,
    env: {
      PATH: path,
      HOME: join(root, 'home'),
      ROOT: root,
      TOP: top,
      STAND_INS: standIns,
      MADE: made,
      PORT: String(port),
      LANG: 'C.UTF-8',
      ...env
    },
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (said: string) => (stderr += said))
  const end = (): void => {
    try {
      process.kill(-(child.pid as number), 'SIGKILL')
    } catch {
      // No process is left.
    }
  }
  const deadline = setTimeout(() => {
    stderr += `\nIt took more than ${deadlineMs / 1000} s`
    end()
  }, deadlineMs)
  const [code] = (await once(child, 'exit')) as [number | null]
  clearTimeout(deadline)
  end()
  return { code, line: Number(readFileSync(join(root, 'line'), 'utf8')), stderr }
}
