import type { Words } from '../t.js'
import { words as ofFleet } from './fleet.js'

/** Texts of `pages/rollouts.ts`. */
export const words: Words = {
  ...ofFleet,
  'Filter by state': '按状态筛选',
  'All states': '所有状态',
  'Load more': '加载更多',
  'No rollout matches the filter.': '没有符合筛选条件的发布。',
  'No rollouts yet': '还没有发布',
  'A push to a project that is placed on nodes becomes a rollout: all nodes prepare, then they deploy in waves.':
    '推送到放置在节点上的项目时，会产生一次发布：所有节点先准备，然后分批部署。'
}
