/** Sentences of lib/server and lib/http that a running server prints or answers. */
export const serverSays = {
  tokenComesFrom: (place: string): string => `The admin token comes from ${place}`,
  restoredIsDamaged: 'which says what was revoked before the restore: ',
  allPathsBelow: (base: string): string => `All paths begin with ${base}/`,
  newCertificate: 'New certificate in use: ',
  previousCertificate: 'The previous certificate stays in use: ',
  noCertificate: 'it contains no certificate in PEM format',
  expectsTls: 'this port expects TLS. Use an address that begins with https://',
  reachable: (host: string): string => `${host} is reachable from other machines`,
  reloaded: (what: string): string => `Reloaded: ${what}`,
  waitsForSchema: (has: number, needs: number): string =>
    `This hub waits: the cluster has schema version ${has}, and this svc needs ${needs}`,
  hubWaits: 'This hub waits for its cluster and answers nothing yet',
  stopToUpgrade: (hub: string): string => `Stop "${hub}" to upgrade it`,
  tooOldForCluster: (has: number, most: number): string =>
    `the cluster was migrated to schema version ${has}, but this svc supports at most ${most}`,
  tooOldForDatabase: (has: number, most: number): string =>
    `has schema version ${has}, but this svc supports at most ${most}`
}
