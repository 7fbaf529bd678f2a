import { connectEtcd, type EtcdOptions } from './connection.js'

const limitMs = 3000

/** Returns the number of members of etcd that vote; null if it does not answer, or does not tell this user. */
export async function countMembers(options: EtcdOptions): Promise<number | null> {
  const connection = connectEtcd(options)
  try {
    const answer = await connection.ask('/v3/cluster/member/list', {}, { limitMs })
    const members = answer['members'] as Array<{ isLearner?: boolean }>
    return members.filter(({ isLearner }) => isLearner !== true).length
  } catch {
    return null
  } finally {
    connection.close()
  }
}

/** What an operator is told about an etcd that is less safe than one member. */
export const twoMembers = 'etcd has 2 members: use three or one. Two stop when either of them does'
