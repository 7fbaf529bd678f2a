import type { DeploymentRow } from '../../lib/model/deployment.js'

/** Tells which of the newest deployments have ended since the last look. Pure but for its memory. */
export function createEnded(): (newest: readonly DeploymentRow[]) => DeploymentRow[] {
  let going = new Set<string>()
  let newestStart: string | null = null
  return newest => {
    const isGoing = ({ status }: DeploymentRow): boolean => status === 'queued' || status === 'running'
    // One that began and ended between two looks is as much news as one that was seen while it ran.
    const isNew = ({ startTime }: DeploymentRow): boolean => newestStart !== null && startTime > newestStart
    const ended = newest.filter(each => !isGoing(each) && (going.has(each.id) || isNew(each)))
    going = new Set(newest.filter(isGoing).map(({ id }) => id))
    newestStart = [newestStart ?? '', ...newest.map(({ startTime }) => startTime)].sort().at(-1) as string
    return ended
  }
}
