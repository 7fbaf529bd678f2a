/* Addresses of pages of the panel, for links outside of it. Null: no public address is configured. */

/** Returns the address of a page below the public address. */
function pageAt(publicUrl: string | null, path: string): string | null {
  return publicUrl === null ? null : `${publicUrl}/${path}`
}

/** Returns the address of a deployment's page, where it is confirmed or reverted. */
export function deploymentPage(publicUrl: string | null, id: string): string | null {
  return pageAt(publicUrl, `deployments/${encodeURIComponent(id)}`)
}

/** Returns the address of a rollout's page, where it is approved, resumed or reverted. */
export function rolloutPage(publicUrl: string | null, id: string): string | null {
  return pageAt(publicUrl, `rollouts/${encodeURIComponent(id)}`)
}

/** Returns the address of a project's page, which shows the files that were edited. */
export function projectPage(publicUrl: string | null, id: string): string | null {
  return pageAt(publicUrl, `projects/${encodeURIComponent(id)}`)
}

/** Returns the address of a node's page. */
export function nodePage(publicUrl: string | null, id: string): string | null {
  return pageAt(publicUrl, `nodes/${encodeURIComponent(id)}`)
}

/** Returns the address of the list of tokens. */
export const tokensPage = (publicUrl: string | null): string | null => pageAt(publicUrl, 'access')

/** Returns the address of the page that shows what takes space on the disk. */
export const storagePage = (publicUrl: string | null): string | null => pageAt(publicUrl, 'storage')

/** Returns the address of the page that shows the state of the machine. */
export const systemPage = (publicUrl: string | null): string | null => pageAt(publicUrl, 'system')
