/*
 * Writes to the log of a CI job: foldable sections, and lines that the CI system must not take as commands. Several
 * systems execute commands that a job prints, so the output of a deployment, which is not trusted, must be escaped:
 *
 *   GitHub, Gitea, Forgejo  ::name::value, and ##[name]value anywhere in a line
 *   Azure Pipelines         ##vso[name]value and ##[name]
 *   TeamCity                ##teamcity[name value]
 *   GitLab                  section_start:time:name, ended by a carriage return
 */
import { randomBytes } from 'node:crypto'

type Environment = Readonly<Record<string, string | undefined>>

export interface CiLog {
  /** Begins a section. Until `close`, no printed line is executed as a command. */
  open(title: string): void
  /** Ends the section. */
  close(): void
  /** Prints a line of the deployment output, within a section. */
  line(text: string): void
  /** Escapes a line to be printed outside of a section, so that it is not a command. */
  harmless(line: string): string
}

export interface CiLogOptions {
  print(line: string): void
  /** Whether control characters reach the log unchanged, which the sections of GitLab need. */
  isRaw: boolean
  nowMs?: () => number
}

/** Creates the log for the CI system of the environment. Outside of CI, lines are printed unchanged. */
export function createCiLog(env: Environment, options: CiLogOptions): CiLog {
  if (isTrue(env['GITHUB_ACTIONS']) || isTrue(env['GITEA_ACTIONS']) || isTrue(env['FORGEJO_ACTIONS']))
    return actionsLog(options)
  if (isTrue(env['GITLAB_CI'])) return gitlabLog(options)
  const harmless = isTrue(env['TF_BUILD'])
    ? (line: string) => line.replace(/##(?=(?:vso)?\[)/gi, '## ')
    : (env['TEAMCITY_VERSION'] ?? '') === ''
      ? (line: string) => line
      : (line: string) => line.replace(/##(?=teamcity\[)/gi, '## ')
  return { open: () => {}, close: () => {}, line: text => options.print(harmless(text)), harmless }
}

function isTrue(value: string | undefined): boolean {
  return value?.toLowerCase() === 'true'
}

/**
 * Creates the log of GitHub Actions. It turns commands off within a section; only a random word turns them on again.
 */
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
    harmless: line => line.replaceAll('##[', '## [').replace(/(^|[\r\n])[^\S\r\n]*::/g, '$1| ::')
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
