import { panelPath } from '../../dom/address.js'

/** Returns the address of a file or directory of a project. An empty path is the target itself. Pure. */
export function fileAddress(projectId: string, path: string): string {
  const address = panelPath`projects/${projectId}/files`
  return path === '' ? address : `${address}?${new URLSearchParams({ path })}`
}
