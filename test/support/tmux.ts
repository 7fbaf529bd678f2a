import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Why tmux is not available here; false if it is. For the `skip` of a test. */
export const noTmux: string | false = (() => {
  try {
    execFileSync('tmux', ['-V'], { stdio: 'ignore' })
    return false
  } catch {
    return 'tmux is not on this machine'
  }
})()

/** A screen of tmux. */
export interface TmuxScreen {
  /** The output of `capture-pane -p -e -N`: one line per row, with SGR. */
  text: string
  cursor: { x: number; y: number }
}

export interface Tmux {
  /** Runs a tmux command and returns its output. */
  command(...words: string[]): Promise<string>
  /** Returns the screen after a program wrote these bytes. */
  screenOf(bytes: Uint8Array): Promise<TmuxScreen>
  close(): Promise<void>
}

/**
 * Written after a program, makes tmux tell the colours of erased cells too: capture-pane stops behind the last cell of
 * a row that was written to, so one is written into each row's last column.
 */
export function revealing({ columns, rows }: { columns: number; rows: number }): Buffer {
  const marks = Array.from({ length: rows }, (_, row) => `\x1b[${row + 1};${columns}H*`)
  return Buffer.from(`\x1b[?6;7l\x1b[4l\x1b[m${marks.join('')}`)
}

/** Starts a separate tmux with windows of this size. */
export async function startTmux({ columns, rows }: { columns: number; rows: number }): Promise<Tmux> {
  // Not below the test's directory: a socket's path has to be short.
  const directory = mkdtempSync(join(tmpdir(), 'tmux-'))
  const socket = join(directory, 'tmux')
  const env = { PATH: process.env['PATH'], LANG: 'C.UTF-8', TERM: 'xterm-256color', HOME: directory, SHELL: '/bin/sh' }
  const command = async (...words: string[]): Promise<string> =>
    (await run('tmux', ['-S', socket, '-f', '/dev/null', ...words], { env, maxBuffer: 64 * 1024 * 1024 })).stdout
  let screens = 0
  await command('new-session', '-d', '-s', 'screens', '-x', String(columns), '-y', String(rows), 'exec sleep 100000')
  for (const [name, value] of [
    ['status', 'off'],
    ['remain-on-exit', 'on'],
    ['default-terminal', 'xterm-256color']
  ]) {
    await command('set-option', '-g', name as string, value as string)
  }

  return {
    command,
    async screenOf(bytes) {
      // The title comes last through the same pipe: once it is there, everything before it has been read.
      const title = `read ${++screens}`
      const file = join(directory, `screen-${screens}`)
      writeFileSync(file, Buffer.concat([bytes, Buffer.from(`\x1b]2;${title}\x1b\\`)]))
      const target = `screens:${screens}`
      const script = `stty raw -echo; cat '${file}'; exec sleep 100000`
      await command('new-window', '-d', '-t', target, script)
      while ((await command('display-message', '-p', '-t', target, '#{pane_title}')).trim() !== title) await pause(10)
      const text = await command('capture-pane', '-p', '-e', '-N', '-t', target)
      const cursor = (await command('display-message', '-p', '-t', target, '#{cursor_x} #{cursor_y}'))
        .split(' ')
        .map(Number)
      await command('kill-window', '-t', target)
      return { text, cursor: { x: cursor[0] as number, y: cursor[1] as number } }
    },
    async close() {
      await command('kill-server').catch(() => {})
      rmSync(directory, { recursive: true, force: true })
    }
  }
}
