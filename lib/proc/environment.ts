/** Of the server's own environment: its secrets, and what is about the server itself. */
const ownName = /^(SVC_.*|ADMIN_TOKEN|NODE_CHANNEL_.*)$/

/** What a program that runs for the user inherits of the server's environment: all but its secrets and its own affairs. */
export function inheritedEnvironment(
  environment: Readonly<Record<string, string | undefined>>
): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !ownName.test(name)))
}
