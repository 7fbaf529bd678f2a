import { readFileSync, readdirSync, readlinkSync } from 'node:fs'

/** A process that a script of a deployment started, or that works below a directory. */
export interface MarkedProcess {
  pid: number
  command: string
  deployId: string
  /** The name of the step in the script's variable. */
  step: string
}

/**
 * Every process that runs (no zombie) and whose environment says that it deploys below a directory, or that works
 * there.
 */
export function markedProcesses(directory: string): MarkedProcess[] {
  const found: MarkedProcess[] = []
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0')
      const valueOf = (name: string): string =>
        environment.find(each => each.startsWith(`${name}=`))?.slice(name.length + 1) ?? ''
      if (
        !valueOf('SVC_DEPLOY_PATH').startsWith(directory) &&
        !readlinkSync(`/proc/${pid}/cwd`).startsWith(`${directory}/`)
      )
        continue
      if (/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))) continue
      const command = readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ').trim().slice(0, 60)
      found.push({ pid: Number(pid), command, deployId: valueOf('SVC_DEPLOY_ID'), step: valueOf('CRASH_STEP') })
    } catch {
      // It has ended meanwhile.
    }
  }
  return found
}
