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
