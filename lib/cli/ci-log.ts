/*
 * The log of a CI job: sections that can be folded, and lines that must not be taken for commands. Several systems read
 * commands from what a job prints, so the output of a deployment, which others write, could give them orders:
 *
 *   GitHub, Gitea, Forgejo  ::name::value, and ##[name]value anywhere in a line
 *   Azure Pipelines         ##vso[name]value and ##[name]
 *   TeamCity                ##teamcity[name value]
 *   GitLab                  section_start:time:name, ended by a carriage return
 */
import { randomBytes } from 'node:crypto'

type Environment = Readonly<Record<string, string | undefined>>

export interface CiLog {
  /** Begins a section; until `close`, nothing that is printed is a command. */
  open(title: string): void
  close(): void
  /** Prints a line of the deployment's output, within a section. */
  line(text: string): void
  /** The line as it may be printed outside of a section: no command to the system. */
  harmless(line: string): string
}

export interface CiLogOptions {
  print(line: string): void
  /** Whether control characters reach the log unchanged; GitLab's sections need them. */
  isRaw: boolean
  nowMs?: () => number
}

/** The log by what the environment says; outside of CI nothing is added or changed. */
export function createCiLog(env: Environment, options: CiLogOptions): CiLog {
  if (isTrue(env['GITHUB_ACTIONS']) || isTrue(env['GITEA_ACTIONS']) || isTrue(env['FORGEJO_ACTIONS'])) return actionsLog(options)
  if (isTrue(env['GITLAB_CI'])) return gitlabLog(options)
  const harmless = isTrue(env['TF_BUILD'])
    ? (line: string) => line.replace(/##(?=(?:vso)?\[)/gi, '## ')
    : (env['TEAMCITY_VERSION'] ?? '') === '' ? (line: string) => line : (line: string) => line.replace(/##(?=teamcity\[)/gi, '## ')
  return { open: () => {}, close: () => {}, line: text => options.print(harmless(text)), harmless }
}

function isTrue(value: string | undefined): boolean {
  return value?.toLowerCase() === 'true'
}

/** Commands are off within a section; only who knows the word can switch them on again. */
function actionsLog({ print }: CiLogOptions): CiLog {
  const word = `svc-${randomBytes(16).toString('hex')}`
  return {
    open(title) {
      print(`::group::${title}`)
      print(`::stop-commands::${word}`)
    },
    close() {
      print(`::${word}::`)
      print('::endgroup::')
    },
    line: print,
    harmless: line => line.replaceAll('##[', '## [').replace(/(^|[\r\n])\s*::/g, '$1| ::')
  }
}

function gitlabLog({ print, isRaw, nowMs = Date.now }: CiLogOptions): CiLog {
  const name = 'svc_deployment'
  const harmless = (line: string): string => line.replace(/section_(?=(?:start|end):)/g, 'section ')
  const mark = (word: string): string => `\x1b[0Ksection_${word}:${Math.floor(nowMs() / 1000)}:${name}\r\x1b[0K`
  return {
    open(title) {
      if (isRaw) print(mark('start') + title)
    },
    close() {
      if (isRaw) print(mark('end'))
    },
    line: text => print(harmless(text)),
    harmless
  }
}
