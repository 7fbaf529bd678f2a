/* What the server, the command line and the panel decide alike about the API. */

/** Returns the path of a route such as `GET /api/projects/:id` with its parameters, each percent-encoded. */
export function routePath(route: string, values: Readonly<Record<string, unknown>>): string {
  return route
    .slice(route.indexOf('/'))
    .replace(/[:*](\w+)/g, (_, name: string) => encodeURIComponent(String(values[name])))
}

/* The limits of locks. */

const minuteSeconds = 60
const daySeconds = 24 * 60 * minuteSeconds
/** Seconds until a lock expires if its owner chose no time. */
export const defaultLockSeconds = daySeconds
/** Minimum number of seconds until a lock expires. */
export const minLockSeconds = minuteSeconds
/** Maximum number of seconds until a lock expires. */
export const maxLockSeconds = 30 * daySeconds
/** Maximum number of characters of a reason. */
export const maxLockReasonLength = 200

/** What a hub of a cluster knows of itself. */
interface HubState {
  role: 'leader' | 'follower' | 'alone'
  /** Why it cannot follow or lead; null if it can. */
  problem: string | null
}

/** Whether a hub cannot follow the writes of its cluster, so that its reads become older. */
export function isCutOff({ role, problem }: HubState): boolean {
  return role === 'alone' || (role === 'follower' && problem !== null)
}

/* What runs when a project is deployed, for the server and the panel. */

/** The fields of a project that decide that. */
interface Runs {
  preDeployScript: string | null
  postDeployScript: string | null
  policy: { gate?: { after: readonly object[] } | null | undefined }
}

/** Scripts that come with a deployment. */
interface Offered {
  preDeploy?: string | null | undefined
  postDeploy?: string | null | undefined
}

/** Whether a deployment of a project runs a command: a script of the project or of the client, or a check. */
export function runsCommand(
  { preDeployScript, postDeployScript, policy }: Runs,
  { preDeploy, postDeploy }: Offered = {}
): boolean {
  const scripts = [preDeployScript, postDeployScript, preDeploy, postDeploy]
  if (scripts.some(script => (script ?? '').trim() !== '')) return true
  return policy.gate?.after.some(check => 'command' in check) ?? false
}

/** Returns whether a deployment would be refused, by its plan. */
export function isRefused({
  counts,
  checks
}: {
  counts: { conflicts: number }
  checks: ReadonlyArray<{ ok: boolean }>
}): boolean {
  return counts.conflicts > 0 || checks.some(({ ok }) => !ok)
}

const units = ['B', 'KB', 'MB', 'GB', 'TB']

/** Formats bytes for people, in steps of 1024: `0 B`, `1.5 KB`, `12 MB`. */
export function formatBytes(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 9.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

/** Returns the number of nodes that a rollout is for: drained ones are skipped, and get the release when they are back. */
export function takingPart({ nodeCount, counts }: { nodeCount: number; counts: { skipped?: number } }): number {
  return nodeCount - (counts.skipped ?? 0)
}
