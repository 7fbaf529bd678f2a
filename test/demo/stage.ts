import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/* A throw-away directory with processes of svc: the stage of a demo. It ends its processes, whatever happens. */

/** The directory of the checkout. */
export const top = fileURLToPath(new URL('../../../', import.meta.url))
const launcher = join(top, 'bin/svc.js')

/** How a command runs. */
export interface Run {
  /** The directory, relative to the stage. */
  cwd?: string
  /** Additions to the environment, such as tokens. */
  env?: Record<string, string>
  input?: string
  /** The exit code that is expected. Default: 0. */
  code?: number
  /** Whether the output is only returned. */
  isQuiet?: boolean
  /** Whether a command that keeps running, and its output, is shown. */
  isShown?: boolean
}

/** A process that keeps running. */
export interface Service {
  process: ChildProcess
  /** Its output so far. */
  said(): string
  /** Resolves when its output matches. Throws if it ends before. */
  says(pattern: RegExp): Promise<RegExpExecArray>
  /** Its exit code; null: a signal ended it. */
  ended: Promise<number | null>
  /** Ends it, and waits until it has ended. */
  stop(signal?: NodeJS.Signals): Promise<void>
}

/** The stage of a demo. */
export interface DemoStage {
  directory: string
  /** Prints what happens next. */
  say(text: string): void
  /** Prints a line of the result. */
  print(text: string): void
  /** Runs one command as a user would type it. Returns its standard output. Throws for another exit code. */
  svc(words: readonly string[], run?: Run): Promise<string>
  /** Starts a command that keeps running. */
  start(words: readonly string[], run?: Run): Service
  /** Has something closed at the end, after the processes of the stage. */
  defer(close: () => Promise<void>): void
  /** Ends all processes and removes the directory. */
  end(): Promise<void>
}

/** Returns a text in bold on a terminal. */
export function bold(text: string): string {
  return process.stdout.isTTY ? `\x1b[1m${text}\x1b[0m` : text
}

/** Opens a stage. Only what the demo says is in the environment of its commands. */
export function openStage(prefix: string): DemoStage {
  const directory = mkdtempSync(join(tmpdir(), prefix))
  const services: Service[] = []
  const deferred: Array<() => Promise<void>> = []
  const base: Record<string, string> = { PATH: process.env['PATH'] ?? '', HOME: directory }
  // A demo that is ended from outside leaves no process behind.
  process.once('exit', () => {
    for (const service of services) service.process.kill('SIGKILL')
    rmSync(directory, { recursive: true, force: true })
  })

  const print = (text: string): void => void process.stdout.write(`${text}\n`)
  const say = (text: string): void => print(`\n${bold(text)}`)

  return {
    directory,
    say,
    print,

    async svc(words, { cwd = '.', env = {}, input, code = 0, isQuiet = false } = {}) {
      if (!isQuiet) say(`$ svc ${words.map(shown).join(' ')}`)
      const child = spawn(process.execPath, [launcher, ...words], {
        cwd: join(directory, cwd),
        env: { ...base, ...env },
        stdio: ['pipe', 'pipe', isQuiet ? 'ignore' : 'inherit']
      })
      child.stdin.end(input ?? '')
      let said = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said += text
        if (!isQuiet) process.stdout.write(text)
      })
      const [ended] = (await once(child, 'close')) as [number | null]
      if (ended !== code) throw new Error(`svc ${words.join(' ')} ended with ${ended} instead of ${code}: ${said}`)
      return said
    },

    start(words, { cwd = '.', env = {}, input, isShown = false } = {}) {
      if (isShown) say(`$ svc ${words.map(shown).join(' ')}`)
      const child = spawn(process.execPath, [launcher, ...words], {
        cwd: join(directory, cwd),
        env: { ...base, ...env },
        stdio: ['pipe', 'pipe', 'pipe']
      })
      child.stdin?.end(input ?? '')
      let said = ''
      for (const stream of [child.stdout, child.stderr])
        stream?.setEncoding('utf8').on('data', (text: string) => {
          said += text
          if (isShown) process.stdout.write(text)
        })
      const ended = once(child, 'close').then(([code]) => code as number | null)
      const service: Service = {
        process: child,
        said: () => said,
        ended,
        async says(pattern) {
          for (;;) {
            const found = pattern.exec(said)
            if (found !== null) return found
            const more = await Promise.race([
              once(child.stdout, 'data'),
              once(child.stderr, 'data'),
              ended.then(() => null)
            ])
            if (more === null) throw new Error(`svc ${words[0]} ended: ${said}`)
          }
        },
        async stop(signal = 'SIGTERM') {
          child.kill(signal)
          await ended
        }
      }
      services.push(service)
      return service
    },

    defer: close => void deferred.push(close),

    async end() {
      await Promise.all(services.map(service => service.stop()))
      for (const close of deferred.reverse()) await close()
      rmSync(directory, { recursive: true, force: true })
    }
  }
}

/** Returns a word as it is typed in a shell; a secret is shortened. */
function shown(word: string): string {
  const short = /^svcnode_/.test(word) ? `${word.slice(0, 12)}…` : word
  return /[^\w./:=%,@…-]/.test(short) ? `'${short}'` : short
}
