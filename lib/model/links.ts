/** Returns the address of a deployment's page, for links outside the panel; null if no public address is configured. */
export function deploymentPage(publicUrl: string | null, id: string): string | null {
  return publicUrl === null ? null : `${publicUrl}/deployments/${encodeURIComponent(id)}`
}

/** Returns the address of the list of tokens, for links outside the panel; null if no public address is configured. */
export function tokensPage(publicUrl: string | null): string | null {
  return publicUrl === null ? null : `${publicUrl}/settings`
}
