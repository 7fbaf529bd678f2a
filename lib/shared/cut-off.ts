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
