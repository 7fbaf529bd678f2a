/** The page of a deployment, for whoever reads of it elsewhere; null where nobody has said how people reach the server. */
export function deploymentPage(publicUrl: string | null, id: string): string | null {
  return publicUrl === null ? null : `${publicUrl}/deployments/${encodeURIComponent(id)}`
}
